//! `kron spool show`: everything about a task, wherever it is.

use std::io::Write;

use kron_core::UtcSecond;
use kron_spool::{Fault, Spool, State, Task, TaskId};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::note;
use crate::args::{OutputFormat, SpoolShowArgs};
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::queue::words::one_line;
use crate::spool::files;
use crate::spool::place::{Place, no_such, task_id};
use crate::spool::words::{self, moment};
use crate::text::{write_json, write_table};

/// The data of a payload.
#[derive(Deserialize)]
struct Data<'p> {
    #[serde(borrow)]
    data: Option<&'p RawValue>,
}

pub(crate) fn run(args: &SpoolShowArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let place = Place::of(&args.place)?;
    let spool = place.to_read()?;
    let wanted = &args.task;
    let names = spool.rejected_names()?;
    let set_aside = files::named(&names, wanted);
    if set_aside.is_empty() {
        task_id("TASK", wanted)?;
    }
    let found = match TaskId::new(wanted) {
        Ok(id) => found(&spool, &id)?.map(|found| (id, found)),
        Err(_) => None,
    };
    if found.is_none() && set_aside.is_empty() {
        return Err(no_such(&spool, wanted));
    }
    if let Some((id, (state, read))) = &found {
        match (args.format, read) {
            (OutputFormat::Json, Ok(bytes)) => out.write_all(bytes)?,
            (OutputFormat::Json, Err(fault)) => {
                return Err(Failure::Unshown { id: id.clone(), fault: fault.clone() });
            }
            (OutputFormat::Text, read) => {
                let task = match read {
                    Ok(bytes) => Task::parse(bytes, id, *state),
                    Err(fault) => Err(fault.clone()),
                };
                write_task(out, &place, id, *state, &task)?;
            }
        }
    }
    for (index, name) in set_aside.into_iter().enumerate() {
        let path = spool.rejected_path(name)?;
        match (args.format, files::report(&spool, name)) {
            // A task's file is the one answer; what was set aside beside it is another's.
            (OutputFormat::Json, _) if found.is_some() => {
                note(&format!("something of this id was set aside, too: `{path}`"));
            }
            (OutputFormat::Json, Ok(report)) => write_json(out, &report)?,
            (OutputFormat::Json, Err(wrong)) => {
                write_json(out, &serde_json::json!({ "name": name, "reason": wrong }))?;
            }
            (OutputFormat::Text, report) => {
                if found.is_some() || index > 0 {
                    writeln!(out)?;
                }
                writeln!(out, "{}", one_line(name))?;
                let mut rows = vec![vec!["state".to_owned(), "rejected".to_owned()]];
                let mut tell = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
                match report {
                    Ok(report) => {
                        tell("from", one_line(&report.directory));
                        tell("rejected", moment(report.rejected_at, clock::now()));
                        tell("reason", one_line(&report.reason));
                    }
                    Err(wrong) => tell("reason", one_line(&wrong)),
                }
                tell("file", path);
                tell(
                    "next",
                    "mend it and rename it into `tasks/pending/`, or remove it".to_owned(),
                );
                write_table(out, "  ", &rows)?;
            }
        }
    }
    Ok(Exit::Ok)
}

type Read = Result<Vec<u8>, Fault>;

/// Where a task is, and its file.
fn found(spool: &Spool, id: &TaskId) -> Result<Option<(State, Read)>, Failure> {
    let mut places = Vec::new();
    // In the order in which a task goes, so that one that moves meanwhile is seen; and one that is
    // started anew begins at the beginning.
    for state in State::ALL.into_iter().chain([State::Pending]) {
        if !places.is_empty() && state == State::Pending {
            break;
        }
        if let Some(read) = spool.bytes(state, id)? {
            places.push((state, read));
        }
    }
    // What is furthest counts.
    let found = places.pop();
    for (state, _) in places {
        note(&format!(
            "it is in `{}/` as well: it is on its way, or a crash has left it there",
            state.directory()
        ));
    }
    Ok(found)
}

fn write_task(
    out: &mut dyn Write,
    place: &Place,
    id: &TaskId,
    state: State,
    task: &Result<Task, Fault>,
) -> Result<(), Failure> {
    let file = place.dir.join("tasks").join(state.directory()).join(id.file_name());
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut tell = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    tell("state", state.to_string());
    match task {
        Ok(task) => {
            tell_task(&mut tell, task, clock::now());
            let unknown: Vec<String> =
                task.unknown_fields().map(|field| format!("`{}`", one_line(field))).collect();
            if !unknown.is_empty() {
                let listed = unknown.join(", ");
                tell("more", format!("{listed}, which `--format json` shows"));
            }
            let obstacle = place.daemon.as_ref().and_then(|asked| asked.view.error.as_deref());
            if let Some(next) = words::next(task, obstacle, clock::now()) {
                tell("next", one_line(&next));
            }
        }
        Err(fault) => {
            tell("no task", one_line(&fault.to_string()));
            if state != State::Completed {
                tell("next", "the daemon that has the spool sets it aside".to_owned());
            }
        }
    }
    tell("file", file.display().to_string());
    writeln!(out, "{id}")?;
    write_table(out, "  ", &rows)?;
    Ok(())
}

fn tell_task(tell: &mut impl FnMut(&str, String), task: &Task, now: UtcSecond) {
    tell("type", task.payload.task_type.clone());
    let data = serde_json::from_str::<Data<'_>>(task.payload.text()).ok().and_then(|it| it.data);
    if let Some(data) = data {
        tell("data", one_line(&words::compact(data.get())));
    }
    for (name, at) in [
        ("created", Some(task.created_at)),
        ("not before", task.not_before),
        ("started", task.started_at),
        ("ended", task.completed_at),
    ] {
        if let Some(at) = at {
            tell(name, moment(at, now));
        }
    }
    let lost = match task.lost_attempts {
        0 => String::new(),
        lost => format!(", {lost} of them lost to a crash"),
    };
    tell("attempts", format!("{}{lost}", task.attempts));
    if let Some(error) = &task.last_error {
        tell("last error", one_line(error));
    }
    if let Some(run) = &task.run {
        tell("run", run.run_id.to_string());
        tell("process", run.command.pid.to_string());
    }
    let Some(result) = &task.result else { return };
    tell("outcome", result.outcome.to_string());
    if let Some(code) = result.exit_code {
        tell("exit code", code.to_string());
    }
    let lines_of = |text: &Option<String>| -> Vec<String> {
        text.iter().flat_map(|text| text.lines()).map(one_line).collect()
    };
    for (name, text) in [("error", &result.error), ("output", &result.output)] {
        for (index, line) in lines_of(text).into_iter().enumerate() {
            tell(if index == 0 { name } else { "" }, line);
        }
    }
}
