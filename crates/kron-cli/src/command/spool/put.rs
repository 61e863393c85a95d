//! `kron spool put`: tasks into a spool, one or many.
//!
//! An id is written only when its task is durable, and at once: whoever reads ids knows what will
//! be there after a power cut.

use std::io::{self, Read as _, Write};

use kron_config::files::ReadError;
use kron_core::{Finding, Timestamp};
use kron_spool::{
    Fault, IdSource, NewTask, Put, PutError, Spool, State, TASK_BYTES_MAX, TaskId, check_type,
};
use serde::Serialize;

use super::{note, warn};
use crate::args::{OutputFormat, SpoolPutArgs};
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::spool::input::{self, Arrival, Arrivals};
use crate::spool::place::{Place, task_id};
use crate::text::write_json;

/// A task that is there.
#[derive(Serialize)]
struct Answer<'a> {
    task_id: &'a TaskId,
    state: &'static str,
    /// Whether it was not there before.
    new: bool,
    /// Whether what was there before is to do the same, where that can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    same: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
}

pub(crate) fn run(args: &SpoolPutArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    if let Some(task_type) = &args.task_type {
        let wrong = |wrong| Failure::argument("--type")(Finding::validation(0..0, wrong));
        check_type(task_type).map_err(wrong)?;
    }
    match &args.task_type {
        Some(task_type) if !args.stdin => one(args, task_type, out),
        _ => many(args, &opened(args)?, out),
    }
}

fn opened(args: &SpoolPutArgs) -> Result<Spool, Failure> {
    let place = Place::of(&args.place)?;
    let spool = Spool::open_to_put(&place.dir)?;
    if let Some(asked) = &place.daemon
        && let Some(error) = &asked.view.error
    {
        note(&format!("nothing of spool `{}` is started: {error}", asked.view.name));
    }
    Ok(spool)
}

fn one(args: &SpoolPutArgs, task_type: &str, out: &mut dyn Write) -> Result<Exit, Failure> {
    let now = clock::now_timestamp();
    let id = match &args.id {
        Some(text) => task_id("--id", text)?,
        None => IdSource::default().next(now).map_err(Failure::Output)?,
    };
    let data = match args.data.as_deref() {
        None => input::NO_DATA.to_owned(),
        Some("-") => data_of_stdin()?,
        Some(text) => text.to_owned(),
    };
    let mut task = NewTask::new(id, task_type, data.trim()).map_err(unfit)?;
    if let Some(text) = &args.not_before {
        let wrong = |wrong| Failure::argument("--not-before")(Finding::validation(0..0, wrong));
        task = task.not_before(input::not_before(text, now).map_err(wrong)?);
    }
    let spool = opened(args)?;
    match spool.put(std::slice::from_ref(&task), now).pop() {
        Some(Ok(put)) => answer(out, args.format, &task, put, None)?,
        Some(Err(PutError::Unfit(fault))) => return Err(unfit(fault)),
        Some(Err(PutError::InTheWay { path, fault })) => {
            return Err(Failure::InTheWay { path, fault });
        }
        Some(Err(PutError::Spool(error))) => return Err(error.into()),
        None => {}
    }
    Ok(Exit::Ok)
}

fn data_of_stdin() -> Result<String, Failure> {
    let refused = |source| ReadError::Io { path: "-".into(), source };
    let mut text = String::new();
    let bounded = io::stdin().lock().take(TASK_BYTES_MAX as u64 + 1).read_to_string(&mut text);
    bounded.map_err(refused)?;
    if text.len() > TASK_BYTES_MAX { Err(unfit(Fault::TooLong)) } else { Ok(text) }
}

/// The argument that is at fault.
fn unfit(fault: Fault) -> Failure {
    let (name, message) = match fault {
        Fault::Field { field: "type", wrong } => ("--type", wrong),
        Fault::Field { field: "data", wrong } => ("--data", wrong),
        fault => ("--data", fault.to_string()),
    };
    Failure::argument(name)(Finding::validation(0..0, message))
}

/// Lines that are tasks, to be put together.
#[derive(Default)]
struct Batch {
    tasks: Vec<NewTask>,
    /// The line of each.
    lines: Vec<usize>,
}

/// Tasks from standard input. What has arrived together is put together; a line that is no task
/// does not stop the others, but a disk that fails does.
fn many(args: &SpoolPutArgs, spool: &Spool, out: &mut dyn Write) -> Result<Exit, Failure> {
    let arrivals = Arrivals::of_stdin()?;
    let ids = IdSource::default();
    let mut exit = Exit::Ok;
    loop {
        let arrived = arrivals.next();
        if arrived.is_empty() {
            return Ok(exit);
        }
        let now = clock::now_timestamp();
        let mut batch = Batch::default();
        let mut end = None;
        for arrival in arrived {
            let (line, task) = match arrival {
                Arrival::Line(line, bytes) => {
                    (line, input::task(&bytes, args.task_type.as_deref(), &ids, now))
                }
                Arrival::TooLong(line) => {
                    (line, Err(format!("it has more than {TASK_BYTES_MAX} bytes")))
                }
                Arrival::Failed(failure) => {
                    end = Some(failure);
                    break;
                }
            };
            match task {
                Ok(task) => {
                    batch.tasks.push(task);
                    batch.lines.push(line);
                }
                Err(wrong) => {
                    exit = Exit::Refused;
                    blame(line, &wrong);
                }
            }
        }
        if batch.put(spool, now, args.format, out)? == Exit::Refused {
            exit = Exit::Refused;
        }
        if let Some(failure) = end {
            return Err(failure);
        }
    }
}

impl Batch {
    /// Puts the tasks and answers. Where the spool itself fails, the others of the batch are
    /// answered before that is told.
    fn put(
        &self,
        spool: &Spool,
        now: Timestamp,
        format: OutputFormat,
        out: &mut dyn Write,
    ) -> Result<Exit, Failure> {
        let (mut exit, mut failed) = (Exit::Ok, None);
        let results = spool.put(&self.tasks, now).into_iter();
        for ((result, task), line) in results.zip(&self.tasks).zip(&self.lines) {
            match result {
                Ok(put) => answer(out, format, task, put, Some(*line))?,
                Err(error @ (PutError::Unfit(_) | PutError::InTheWay { .. })) => {
                    exit = Exit::Refused;
                    blame(*line, &error.to_string());
                }
                Err(PutError::Spool(error)) => {
                    blame(*line, "it was not put");
                    failed.get_or_insert(error);
                }
            }
        }
        out.flush()?;
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(exit),
        }
    }
}

fn answer(
    out: &mut dyn Write,
    format: OutputFormat,
    task: &NewTask,
    put: Put,
    line: Option<usize>,
) -> Result<(), Failure> {
    let (state, new) = match put {
        Put::New => (State::Pending, true),
        Put::Present { state, .. } => (state, false),
    };
    match format {
        OutputFormat::Json => {
            let same = if let Put::Present { same, .. } = put { same } else { None };
            let answer = Answer { task_id: task.id(), state: state.directory(), new, same, line };
            write_json(out, &answer)?;
        }
        OutputFormat::Text => writeln!(out, "{}", task.id())?,
    }
    if !new {
        let line = line.map_or_else(String::new, |line| format!("line {line}: "));
        let told = format!("{line}task `{}` is there already, {state}", task.id());
        match put {
            Put::Present { same: Some(false), .. } => {
                warn(&format!("{told}, with another payload, and stays as it is"));
            }
            _ => note(&told),
        }
    }
    Ok(())
}

fn blame(line: usize, wrong: &str) {
    let _ = writeln!(io::stderr(), "error: line {line}: {wrong}");
}
