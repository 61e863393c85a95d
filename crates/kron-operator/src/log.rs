//! The operator's log: one line per event on standard error, as `key=value` text or as JSON.
//!
//! Both forms begin with the time, the level and the component, and carry the same fields. A
//! `decision` event carries every field of the request and of the decision, so that `kron replay`
//! can compute it again. What a Job's template holds never comes here: entries are made of
//! identities, periods, names and messages only.
//!
//! Nobody who logs ever waits for whoever reads: lines wait in a queue of bounded size for a thread
//! of their own, and those that find no room are counted and told once there is some. A log that
//! cannot be written is given up silently: there is nobody left to tell, and Jobs matter more. A
//! process that is killed takes with it what waits, which is nothing while somebody reads;
//! [`Log::flush`] comes before an orderly end.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{mem, thread};

use kron_core::{DecisionEvent, UtcSecond, quoted};
use serde_json::Value;

/// What the lines of this program are known by.
const COMPONENT: &str = "kron-operator";
/// How much may wait for the reader.
const WAITING_BYTES_MAX: usize = 1024 * 1024;
/// How long the end of the process is held up for its last lines.
const FLUSH_PATIENCE: Duration = Duration::from_secs(2);
/// How long a reader is left alone whose pipe is full and does not wait.
const FULL_PIPE_PAUSE: Duration = Duration::from_millis(10);

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// `key=value` pairs
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

/// The log. Every task may have one.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    outlet: Arc<Outlet>,
}

/// What every line about an error says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure<'a> {
    /// Its kind, such as `api` or `conflict`.
    pub(crate) error_type: &'a str,
    /// What was attempted.
    pub(crate) operation: &'a str,
    /// What went wrong, for people.
    pub(crate) message: &'a str,
    /// The KronJob, if it was about one.
    pub(crate) identity: Option<&'a str>,
    /// The period, if it was about one.
    pub(crate) period_id: Option<&'a str>,
}

#[derive(Clone, Copy, Debug)]
enum Level {
    Info,
    Warn,
    Error,
}

impl Log {
    /// A log on standard error.
    ///
    /// # Errors
    /// When there can be no thread for it, or standard error is closed.
    pub(crate) fn new(format: LogFormat) -> io::Result<Log> {
        // Past the lock of the standard library's, which a panic elsewhere needs.
        let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        Log::to(format, stderr)
    }

    fn to(format: LogFormat, target: impl Write + Send + 'static) -> io::Result<Log> {
        let log = Log { outlet: Arc::new(Outlet::new(format)) };
        let outlet = Arc::clone(&log.outlet);
        thread::Builder::new().name("log".to_owned()).spawn(move || outlet.work(target))?;
        Ok(log)
    }

    /// What went as it should.
    pub(crate) fn info(&self, event: &str, fields: &[(&str, Value)]) {
        self.write(Level::Info, event, fields);
    }

    /// What somebody should look at.
    pub(crate) fn warn(&self, event: &str, fields: &[(&str, Value)]) {
        self.write(Level::Warn, event, fields);
    }

    /// What failed, with what is known about it.
    pub(crate) fn error(&self, event: &str, failure: &Failure<'_>, fields: &[(&str, Value)]) {
        let Failure { error_type, operation, message, identity, period_id } = *failure;
        let mut all: Vec<(&str, Value)> = Vec::with_capacity(fields.len() + 5);
        all.extend(identity.map(|identity| ("identity", identity.into())));
        all.extend(period_id.map(|period| ("period_id", period.into())));
        all.push(("error_type", error_type.into()));
        all.push(("operation", operation.into()));
        all.push(("message", message.into()));
        all.extend(fields.iter().cloned());
        self.write(Level::Error, event, &all);
    }

    /// A decision, with all that it takes to make it again.
    pub(crate) fn decision(&self, decision: &DecisionEvent) {
        let known = decision.fields();
        let first = ["identity", "period_id"];
        let of_first = first.iter().filter_map(|key| known.get_key_value(*key));
        let passed_over = |key: &str| key == "event" || first.contains(&key);
        let rest = known.iter().filter(|(key, _)| !passed_over(key));
        let fields: Vec<(&str, Value)> =
            of_first.chain(rest).map(|(key, value)| (key.as_str(), value.clone())).collect();
        self.write(Level::Info, "decision", &fields);
    }

    /// Waits until everything is written, but not for ever.
    pub(crate) fn flush(&self) {
        self.outlet.flush();
    }

    fn write(&self, level: Level, event: &str, fields: &[(&str, Value)]) {
        self.outlet.take(&line(self.outlet.format, &timestamp(), level, event, fields));
    }
}

/// One line, with its end; as text, fields that are null are left out.
fn line(
    format: LogFormat,
    time: &str,
    level: Level,
    event: &str,
    fields: &[(&str, Value)],
) -> String {
    let level = match level {
        Level::Info => "info",
        Level::Warn => "warn",
        Level::Error => "error",
    };
    let mut line = match format {
        LogFormat::Text => {
            format!("{time} level={level} component={COMPONENT} event={}", quoted(event))
        }
        LogFormat::Json => {
            let event = Value::from(event);
            format!(
                r#"{{"time":"{time}","level":"{level}","component":"{COMPONENT}","event":{event}"#
            )
        }
    };
    for (key, value) in fields {
        // Writing to a `String` cannot fail.
        let _ = match (format, value) {
            (LogFormat::Json, value) => write!(line, ",{}:{value}", Value::from(*key)),
            (LogFormat::Text, Value::Null) => Ok(()),
            (LogFormat::Text, Value::String(text)) => write!(line, " {key}={}", quoted(text)),
            (LogFormat::Text, other) => write!(line, " {key}={}", quoted(&other.to_string())),
        };
    }
    line.push_str(match format {
        LogFormat::Text => "\n",
        LogFormat::Json => "}\n",
    });
    line
}

/// The present for a line: `2026-03-01T00:00:00.000000000Z`.
fn timestamp() -> String {
    // A machine that thinks itself before 1970 has no use for nanoseconds.
    let since = wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let second = UtcSecond::MIN.saturating_add(seconds.saturating_sub(UtcSecond::MIN.unix()));
    let text = second.to_string();
    format!("{}.{:09}Z", text.trim_end_matches('Z'), since.subsec_nanos())
}

#[expect(
    clippy::disallowed_methods,
    reason = "log lines carry the time at which they were written"
)]
fn wall() -> SystemTime {
    SystemTime::now()
}

/// Lines on their way.
#[derive(Debug)]
struct Outlet {
    format: LogFormat,
    state: Mutex<State>,
    /// There is something to write.
    filled: Condvar,
    /// Everything is written.
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: String,
    /// Lines that found no room.
    lost: u64,
    writing: bool,
}

impl Outlet {
    fn new(format: LogFormat) -> Outlet {
        let (filled, emptied) = (Condvar::new(), Condvar::new());
        Outlet { format, state: Mutex::default(), filled, emptied }
    }

    fn take(&self, line: &str) {
        let mut state = self.lock();
        if state.waiting.len() + line.len() > WAITING_BYTES_MAX {
            state.lost += 1;
            return;
        }
        state.waiting.push_str(line);
        drop(state);
        self.filled.notify_one();
    }

    fn flush(&self) {
        let busy = |state: &mut State| state.writing || !state.waiting.is_empty();
        let _ = self.emptied.wait_timeout_while(self.lock(), FLUSH_PATIENCE, busy);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, mut target: impl Write) {
        let mut state = self.lock();
        loop {
            if state.waiting.is_empty() {
                state.writing = false;
                self.emptied.notify_all();
                state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.writing = true;
            let mut lines = mem::take(&mut state.waiting);
            let lost = mem::take(&mut state.lost);
            drop(state);
            if lost > 0 {
                let fields = [("count", lost.into())];
                let told = line(self.format, &timestamp(), Level::Warn, "log_lines_lost", &fields);
                lines.push_str(&told);
            }
            write_all(&mut target, lines.as_bytes());
            state = self.lock();
        }
    }
}

fn write_all(target: &mut impl Write, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match target.write(bytes) {
            Ok(length) if length > 0 => bytes = &bytes[length..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Somebody has made it one that does not wait. This thread can.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(FULL_PIPE_PAUSE);
            }
            Ok(_) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};

    use k8s_openapi::jiff::Timestamp;
    use kron_core::{Host, TimingParser};
    use serde_json::json;

    use super::*;

    const TIME: &str = "2026-03-01T00:00:00.000000001Z";

    /// A log whose lines can be read at the other end of a pipe.
    fn piped(format: LogFormat) -> (Log, BufReader<io::PipeReader>) {
        let (reader, writer) = io::pipe().unwrap();
        (Log::to(format, writer).unwrap(), BufReader::new(reader))
    }

    fn next(reader: &mut BufReader<io::PipeReader>) -> String {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line
    }

    #[test]
    fn a_line_begins_with_time_level_and_component_and_stays_one_line() {
        let fields = [
            ("identity", json!("shop/a b")),
            ("message", json!("two\nlines")),
            ("count", json!(3)),
            ("nothing", Value::Null),
        ];
        let text = line(LogFormat::Text, TIME, Level::Warn, "odd", &fields);
        let expected = format!(
            "{TIME} level=warn component=kron-operator event=odd identity=\"shop/a b\" \
             message=\"two\\nlines\" count=3\n"
        );
        assert_eq!(text, expected);
        let text = line(LogFormat::Json, TIME, Level::Info, "odd", &fields);
        assert_eq!(text.lines().count(), 1);
        let expected = json!({
            "time": TIME, "level": "info", "component": "kron-operator", "event": "odd",
            "identity": "shop/a b", "message": "two\nlines", "count": 3, "nothing": null,
        });
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
    }

    #[test]
    fn times_have_nanoseconds_and_name_the_present() {
        let before = wall();
        let (log, mut reader) = piped(LogFormat::Text);
        log.info("odd", &[]);
        let line = next(&mut reader);
        let time: SystemTime = line.split(' ').next().unwrap().parse::<Timestamp>().unwrap().into();
        assert!(before <= time && time <= wall(), "{line}");
        assert_eq!(line.find(" level=info"), Some(TIME.len()), "{line}");
    }

    #[test]
    fn an_error_says_what_was_attempted_on_whom() {
        let (log, mut reader) = piped(LogFormat::Text);
        let failure = Failure {
            error_type: "api",
            operation: "create job",
            message: "no answer",
            identity: Some("shop/backup"),
            period_id: Some("2026-03-01T00:00:00Z"),
        };
        log.error("start_failed", &failure, &[("job", "backup-1".into())]);
        log.error("start_failed", &Failure { identity: None, period_id: None, ..failure }, &[]);
        let after_time = |line: String| line.split_once(' ').unwrap().1.to_owned();
        assert_eq!(
            after_time(next(&mut reader)),
            "level=error component=kron-operator event=start_failed identity=shop/backup \
             period_id=2026-03-01T00:00:00Z error_type=api operation=\"create job\" \
             message=\"no answer\" job=backup-1\n"
        );
        assert_eq!(
            after_time(next(&mut reader)),
            "level=error component=kron-operator event=start_failed error_type=api \
             operation=\"create job\" message=\"no answer\"\n"
        );
    }

    #[test]
    fn a_decision_in_either_form_is_replayed_without_difference() {
        let mut parser = TimingParser::new();
        let text = "0 3 * * * @tz(Europe/Paris) @win(after,2h) @dist(skewEarly) @avoid(dow=SUN)";
        let timing = parser.parse(text, "shop/backup", Host::default()).unwrap();
        let decision = timing.due_after("2026-03-27T12:00:00Z".parse().unwrap()).next().unwrap();
        let event = DecisionEvent::of(timing.placement(), &decision);
        for format in [LogFormat::Text, LogFormat::Json] {
            let (log, mut reader) = piped(format);
            log.decision(&event);
            let line = next(&mut reader);
            let read = DecisionEvent::parse(&line).unwrap().expect("a decision event");
            assert_eq!(read.replay(&mut parser).unwrap(), [], "{line}");
            assert_eq!(read.fields()["component"], "kron-operator");
        }
    }

    #[test]
    fn a_reader_that_reads_nothing_holds_nobody_up_and_learns_what_it_missed() {
        let (log, mut reader) = piped(LogFormat::Json);
        let filling = [("text", "x".repeat(10_000).into())];
        let mut taken = 0_u64;
        while log.outlet.lock().lost == 0 {
            log.info("filling", &filling);
            taken += 1;
            assert!(taken < 10_000, "there is no end to what waits");
        }
        let mut read = 0;
        let told = loop {
            let value: Value = serde_json::from_str(&next(&mut reader)).unwrap();
            match value["event"].as_str() {
                Some("filling") => read += 1,
                _ => break value,
            }
        };
        assert_eq!(told["event"], "log_lines_lost");
        assert_eq!(told["count"].as_u64().unwrap() + read, taken);
    }

    #[test]
    fn a_reader_that_is_gone_is_no_reason_to_stop() {
        let (log, reader) = piped(LogFormat::Text);
        drop(reader);
        log.info("into_the_void", &[]);
        log.flush();
        let state = log.outlet.lock();
        assert!(!state.writing && state.waiting.is_empty());
    }
}
