//! Putting tasks into a spool, durably and once.
//!
//! A put is answered well only when the task is on the disk: its file and its name. A task whose id
//! is there already is not put again, wherever it has got to; that answer, too, is given only when
//! what is there is durable. Many tasks share their syncs.

use std::collections::HashMap;

use kron_core::Timestamp;
use kron_state::{FileError, Moves, Operation};
use serde_json::value::RawValue;

use crate::error::{Fault, SpoolError};
use crate::id::TaskId;
use crate::open::{Spool, file_error};
use crate::steps::{Draft, Placed, Placing, place};
use crate::task::{Payload, State, TASK_BYTES_MAX, Task, check_depth, check_type};

/// How often a task is put that is there and then is not. Whoever takes it away that often wants
/// something else.
const ROUNDS_MAX: usize = 8;

/// A task to be put.
#[derive(Clone, Debug)]
pub struct NewTask {
    id: TaskId,
    payload: Payload,
    not_before: Option<Timestamp>,
}

impl NewTask {
    /// A task of a type, with data that may be any JSON.
    ///
    /// # Errors
    /// When it cannot be a task's.
    pub fn new(id: TaskId, task_type: &str, data: &str) -> Result<NewTask, Fault> {
        check_type(task_type).map_err(|wrong| Fault::Field { field: "type", wrong })?;
        // Before anything else reads it, and may nest itself.
        check_depth(data)?;
        let data: &RawValue = serde_json::from_str(data).map_err(|error| Fault::Field {
            field: "data",
            wrong: format!("it is not JSON: {error}"),
        })?;
        // Lines are for people; no string of JSON has one in it.
        let payload = format!("{{\n    \"type\": \"{task_type}\",\n    \"data\": {data}\n  }}");
        // As deep as it will be in its file.
        check_depth(&format!("[{payload}]"))?;
        let text = RawValue::from_string(payload)
            .map_err(|error| Fault::Json { message: error.to_string() })?;
        let payload = Payload::of(text)?;
        Ok(NewTask { id, payload, not_before: None })
    }

    /// The same, not to be started before then.
    #[must_use]
    pub fn not_before(self, moment: Timestamp) -> NewTask {
        NewTask { not_before: Some(moment), ..self }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &TaskId {
        &self.id
    }
}

/// What became of a task that was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is there, and was not before.
    New,
    /// One of its id was there already.
    Present {
        /// Where it had got to.
        state: State,
        /// Whether it is to do the same, but for blanks in its JSON, where that can be read.
        same: Option<bool>,
    },
}

/// Why a task was not put.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// It cannot be a task.
    #[error(transparent)]
    Unfit(#[from] Fault),
    /// Something has its file's name and is no task.
    #[error("`{path}` is in the way: {fault}")]
    InTheWay {
        /// The file.
        path: String,
        /// What is wrong with it.
        fault: Fault,
    },
    /// It could not be written, or not made durable. It may be there, and can be put again.
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

impl<D: Moves> Spool<D> {
    /// Puts tasks, and returns when all that went well are durable.
    pub fn put(&self, tasks: &[NewTask], now: Timestamp) -> Vec<Result<Put, PutError>> {
        let mut results: Vec<Option<Result<Put, PutError>>> = tasks.iter().map(|_| None).collect();
        let mut open: Vec<usize> = (0..tasks.len()).collect();
        for _ in 0..ROUNDS_MAX {
            let round: Vec<&NewTask> = open.iter().map(|at| &tasks[*at]).collect();
            let answers = self.put_once(&round, now);
            let answered = open.into_iter().zip(answers);
            open = answered
                .filter_map(|(at, answer)| {
                    results[at] = answer.transpose();
                    results[at].is_none().then_some(at)
                })
                .collect();
            if open.is_empty() {
                break;
            }
        }
        let gone =
            |task: &NewTask| SpoolError::Gone { path: self.pending.describe(&task.id.file_name()) };
        let results = results.into_iter().zip(tasks);
        results.map(|(result, task)| result.unwrap_or_else(|| Err(gone(task).into()))).collect()
    }

    /// Puts tasks; `None` where one was there, and is nowhere any more.
    fn put_once(&self, tasks: &[&NewTask], now: Timestamp) -> Vec<Result<Option<Put>, PutError>> {
        let mut drafts: Vec<Draft> = Vec::new();
        let mut numbers: HashMap<&TaskId, usize> = HashMap::new();
        let plans: Vec<Result<Plan, PutError>> = tasks
            .iter()
            .map(|task| {
                if let Some(number) = numbers.get(&task.id) {
                    return Ok(Plan::Repeat(*number));
                }
                Ok(match self.prepare(task, now)? {
                    Prepared::There(state) => Plan::There(state),
                    Prepared::Draft(draft) => {
                        numbers.insert(&task.id, drafts.len());
                        drafts.push(draft);
                        Plan::Draft(drafts.len() - 1)
                    }
                })
            })
            .collect();
        let placed = place(&self.pending, &drafts, Placing::New);
        let placed = |number: usize| placed[number].as_ref().map_err(SpoolError::again);
        let mut results: Vec<Result<Answer, PutError>> = plans
            .into_iter()
            .map(|plan| {
                Ok(match plan? {
                    Plan::There(state) => Answer::There(state),
                    Plan::Draft(number) if placed(number)? == &Placed::Placed => Answer::New,
                    Plan::Draft(_) => Answer::There(State::Pending),
                    // It is there as far as the first of its id is.
                    Plan::Repeat(number) => {
                        placed(number).map(|_| Answer::There(State::Pending))?
                    }
                })
            })
            .collect();
        if let Err(error) = self.sync_places(&results) {
            for result in results.iter_mut().filter(|result| result.is_ok()) {
                *result = Err(error.again().into());
            }
        }
        let results = results.into_iter().zip(tasks).map(|(result, task)| match result? {
            Answer::New => Ok(Some(Put::New)),
            // It may be another's, who did not make it durable.
            Answer::There(State::Pending) => self.settle(task),
            Answer::There(state) => Ok(Some(self.present(task, state))),
        });
        results.collect()
    }

    /// Makes the names durable of what was put or found.
    fn sync_places(&self, results: &[Result<Answer, PutError>]) -> Result<(), SpoolError> {
        if !results.iter().any(Result::is_ok) {
            return Ok(());
        }
        self.sync(&self.pending)?;
        // One that is further on may have got there a moment ago.
        for state in [State::Running, State::Completed] {
            if results.iter().flatten().any(|answer| *answer == Answer::There(state)) {
                self.sync(self.directory(state)?)?;
            }
        }
        Ok(())
    }

    fn prepare(&self, task: &NewTask, now: Timestamp) -> Result<Prepared, PutError> {
        self.check()?;
        let name = task.id.file_name();
        // In the order in which a task goes, so that one that moves meanwhile is seen.
        for state in State::ALL {
            let Ok(directory) = self.directory(state) else { continue };
            let at = SpoolError::at(Operation::Read, directory.describe(&name));
            if directory.version(&name).map_err(at)?.is_some() {
                return Ok(Prepared::There(state));
            }
        }
        let mut written = Task::new(task.id.clone(), task.payload.clone(), now);
        written.not_before = task.not_before;
        let bytes = written.to_json().into_bytes();
        if bytes.len() > TASK_BYTES_MAX {
            return Err(Fault::TooLong.into());
        }
        let temporary = self.own_temporary();
        Ok(Prepared::Draft(Draft { temporary, name, bytes }))
    }

    /// Makes what another has put there durable; `None` when it is nowhere any more.
    fn settle(&self, task: &NewTask) -> Result<Option<Put>, PutError> {
        let name = task.id.file_name();
        let same = match self.read(State::Pending, &task.id)? {
            Some(Ok(found)) => found.task.payload.is_alike(&task.payload),
            Some(Err(fault)) => {
                return Err(PutError::InTheWay { path: self.pending.describe(&name), fault });
            }
            None => return self.find_further_on(task),
        };
        match self.pending.sync_named(&name) {
            Ok(()) => Ok(Some(Put::Present { state: State::Pending, same: Some(same) })),
            Err(FileError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                self.find_further_on(task)
            }
            Err(error) => {
                let path = self.pending.describe(&name);
                Err(file_error(Operation::SyncFile, path, error).into())
            }
        }
    }

    /// Where a task is that has left `pending/` meanwhile: durable, or it would not have left.
    fn find_further_on(&self, task: &NewTask) -> Result<Option<Put>, PutError> {
        let name = task.id.file_name();
        for state in [State::Running, State::Completed] {
            // Whoever may not look there takes it for started.
            let Ok(directory) = self.directory(state) else {
                return Ok(Some(Put::Present { state: State::Running, same: None }));
            };
            let at = SpoolError::at(Operation::Read, directory.describe(&name));
            if directory.version(&name).map_err(at)?.is_some() {
                return Ok(Some(self.present(task, state)));
            }
        }
        Ok(None)
    }

    /// A task that is further on than it was put.
    fn present(&self, task: &NewTask, state: State) -> Put {
        // It is there; that its file cannot be read, or has gone on meanwhile, is no failure.
        let same = match self.read(state, &task.id) {
            Ok(Some(Ok(found))) => Some(found.task.payload.is_alike(&task.payload)),
            _ => None,
        };
        Put::Present { state, same }
    }
}

/// What is done about a task.
enum Plan {
    There(State),
    /// The draft of this number is its own,
    Draft(usize),
    /// or that of an earlier one of its id.
    Repeat(usize),
}

/// What is known of a task before it is looked at again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    New,
    There(State),
}

enum Prepared {
    There(State),
    Draft(Draft),
}
