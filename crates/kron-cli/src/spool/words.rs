//! Tasks in words. Pure: what a file says and the time go in, words come out.

use kron_core::{Timestamp, UtcSecond};
pub(crate) use kron_spool::compact;
use kron_spool::{Outcome, State, Task};

/// A task in a few words, for the last column of a table.
pub(crate) fn note(task: &Task, now: UtcSecond) -> String {
    match task.state {
        State::Pending => {
            let due = task.not_before.filter(|at| at.second() > now);
            let due = due.map(|at| format!("due {}", at.second()));
            let error = task.last_error.clone();
            [due, error].into_iter().flatten().collect::<Vec<_>>().join("; ")
        }
        State::Running => {
            task.started_at.map_or_else(String::new, |at| format!("since {}", at.second()))
        }
        State::Completed => ended(task),
    }
}

/// How a task has ended, such as `failed, exit code 3, 2026-03-01T00:00:00Z`.
pub(crate) fn ended(task: &Task) -> String {
    let Some(result) = &task.result else { return "without a result".to_owned() };
    let mut words = result.outcome.to_string();
    let code = result.exit_code.filter(|code| *code != 0).map(|code| format!("exit code {code}"));
    let error = result.error.clone().filter(|error| code.as_ref() != Some(error));
    let at = task.completed_at.map(|at| at.second().to_string());
    for more in [code, error, at].into_iter().flatten() {
        words.push_str(", ");
        words.push_str(&more);
    }
    words
}

/// What will become of a task, or what to do about it; nothing when there is nothing to say.
pub(crate) fn next(task: &Task, obstacle: Option<&str>, now: UtcSecond) -> Option<String> {
    let outcome = task.result.as_ref().map(|result| result.outcome);
    match (task.state, outcome) {
        (State::Pending, _) => Some(match (task.not_before, obstacle) {
            (_, Some(obstacle)) => format!("nothing of its spool is started: {obstacle}"),
            (Some(at), None) if at.second() > now => {
                format!("it may start at {}", moment(at, now))
            }
            _ => "it starts when a worker is free that handles its type".to_owned(),
        }),
        (State::Completed, Some(Outcome::Failed | Outcome::Skipped)) => {
            Some(format!("`kron spool retry {}` starts it anew", task.id))
        }
        (State::Running, _) | (State::Completed, _) => None,
    }
}

/// A time, and how long ago it was or how far ahead it is.
pub(crate) fn moment(at: Timestamp, now: UtcSecond) -> String {
    crate::queue::words::moment(kron_queue::Timestamp(at), now)
}

#[cfg(test)]
mod tests {
    use kron_spool::TaskId;

    use super::*;

    fn task(state: State, more: &str) -> Task {
        let text = format!(
            r#"{{"taskId":"t","state":"{}","createdAt":"2026-03-01T00:00:00Z","payload":{{"type":"T"}}{more}}}"#,
            state.as_str()
        );
        Task::parse(text.as_bytes(), &TaskId::new("t").unwrap(), state).expect(&text)
    }

    #[test]
    fn tasks_have_words() {
        let now = UtcSecond::parse("2026-03-01T01:00:00Z").unwrap();
        let later = r#","attempts":1,"lastError":"exit code 3","notBefore":"2026-03-01T02:00:00Z""#;
        let earlier = r#","notBefore":"2026-03-01T00:30:00Z""#;
        let failed = r#","completedAt":"2026-03-01T00:10:00Z","result":{"outcome":"FAILED","exitCode":3,"error":"exit code 3"}"#;
        let lost = r#","result":{"outcome":"FAILED","error":"it was lost"}"#;
        let good = r#","completedAt":"2026-03-01T00:10:00Z","result":{"outcome":"SUCCEEDED","exitCode":0}"#;
        for (state, more, expected, next_begins) in [
            (State::Pending, "", "", Some("it starts when")),
            (
                State::Pending,
                later,
                "due 2026-03-01T02:00:00Z; exit code 3",
                Some("it may start at 2026-03-01T02:00:00Z, in 1h"),
            ),
            (State::Pending, earlier, "", Some("it starts when")),
            (
                State::Running,
                r#","startedAt":"2026-03-01T00:30:00Z""#,
                "since 2026-03-01T00:30:00Z",
                None,
            ),
            (
                State::Completed,
                failed,
                "failed, exit code 3, 2026-03-01T00:10:00Z",
                Some("`kron spool retry t`"),
            ),
            (State::Completed, lost, "failed, it was lost", Some("`kron spool retry t`")),
            (State::Completed, good, "succeeded, 2026-03-01T00:10:00Z", None),
        ] {
            let task = task(state, more);
            assert_eq!(note(&task, now), expected);
            let next = next(&task, None, now);
            assert_eq!(next.is_some(), next_begins.is_some(), "{next:?}");
            assert!(next.unwrap_or_default().starts_with(next_begins.unwrap_or_default()));
        }
        let told = next(&task(State::Pending, later), Some("a sync failed"), now);
        assert_eq!(told.as_deref(), Some("nothing of its spool is started: a sync failed"));
    }

    #[test]
    fn only_blanks_between_parts_go() {
        for (json, expected) in [
            ("{ \"a b\" : [ 1 ,\n 2 ] }", r#"{"a b":[1,2]}"#),
            (r#"[ "\" x" , "\\" , " " ]"#, r#"["\" x","\\"," "]"#),
            (" 12345678901234567890123 ", "12345678901234567890123"),
        ] {
            assert_eq!(compact(json), expected);
        }
    }
}
