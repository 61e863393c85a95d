//! Which spool is meant, and who may change it.
//!
//! Tasks are put and looked at in the spool's own directory, whoever names it; a daemon is asked for
//! nothing but where that is. What only the holder of a spool may do is the daemon's to do, or done
//! here under the spool's lock.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use kron_core::finding::{excerpt, nearest};
use kron_spool::{Spool, SpoolError, SpoolLock, State, TaskId};
use krond::api::view::{SpoolView, SpoolsView};

use crate::args::SpoolPlaceArgs;
use crate::client::{Client, encode};
use crate::failure::Failure;

/// Ids among which the one that may be meant is looked for.
const LOOKED_AT_MAX: usize = 10_000;
/// Longer ids are machines', which all look alike.
const SLIP_BYTES_MAX: usize = 31;

/// A spool, and how it was found.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    /// The daemon that has it, if one was asked.
    pub(crate) daemon: Option<Asked>,
}

/// A daemon's own view of one of its spools.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) client: Client,
    pub(crate) view: SpoolView,
}

impl Asked {
    /// The API's path to something of the spool.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("spools/{}/{rest}", encode(&self.view.name))
    }
}

impl Place {
    /// The spool that the arguments name.
    pub(crate) fn of(args: &SpoolPlaceArgs) -> Result<Place, Failure> {
        if let Some(dir) = &args.dir {
            return Ok(Place { dir: dir.clone(), daemon: None });
        }
        let client = Client::of(&args.daemon);
        let spools: SpoolsView = client.get("spools").map_err(Failure::SpoolUnknown)?;
        let view = chosen(spools.spools, args.spool.as_deref())?;
        Ok(Place { dir: PathBuf::from(&view.dir), daemon: Some(Asked { client, view }) })
    }

    /// The spool, to look at it.
    pub(crate) fn to_read(&self) -> Result<Spool, Failure> {
        Ok(Spool::open_to_read(&self.dir)?)
    }
}

/// The spool of this name, or the only one.
fn chosen(mut spools: Vec<SpoolView>, wanted: Option<&str>) -> Result<SpoolView, Failure> {
    let named = |spool: &SpoolView| wanted.is_none_or(|wanted| spool.name == wanted);
    let at = spools.iter().position(named);
    if let Some(at) = at.filter(|_| wanted.is_some() || spools.len() == 1) {
        return Ok(spools.swap_remove(at));
    }
    let names: Vec<String> = spools.iter().map(|spool| format!("`{}`", spool.name)).collect();
    let listed = names.join(", ");
    match wanted {
        _ if spools.is_empty() => Err(Failure::NoSpools),
        None => Err(Failure::Unclear {
            message: format!("the daemon has {} spools: {listed}", spools.len()),
            hint: "say which one with `--spool NAME`".to_owned(),
        }),
        Some(wanted) => {
            let near = nearest(wanted, spools.iter().map(|spool| spool.name.as_str()));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the daemon has {listed}"),
            };
            Err(Failure::NoSuch { noun: "spool", wanted: excerpt(wanted), hint })
        }
    }
}

/// A spool that is there, with the right to change it.
pub(crate) fn held(dir: &Path) -> Result<(Spool, SpoolLock), SpoolError> {
    // What is not there is not made by asking for it.
    Spool::open_to_read(dir)?;
    Spool::open(dir, &[])
}

/// The first task that is completed and something else as well, as a crash leaves it. While that is
/// so, the completed one must stay: the other would be run again.
pub(crate) fn doubled(spool: &Spool) -> Result<Option<(TaskId, State)>, SpoolError> {
    let completed: HashSet<TaskId> = spool.ids(State::Completed)?.into_iter().collect();
    for state in [State::Running, State::Pending] {
        if let Some(id) = spool.ids(state)?.into_iter().find(|id| completed.contains(id)) {
            return Ok(Some((id, state)));
        }
    }
    Ok(None)
}

/// A task's id as people type it.
pub(crate) fn task_id(name: &'static str, text: &str) -> Result<TaskId, Failure> {
    TaskId::new(text).map_err(|error| {
        Failure::argument(name)(kron_core::Finding::validation(0..0, error.to_string()))
    })
}

/// There is no task of this id; perhaps another is meant.
pub(crate) fn no_such(spool: &Spool, wanted: &str) -> Failure {
    let mut ids: Vec<TaskId> = Vec::new();
    for state in State::ALL {
        // Whether there is one like it is worth no failure.
        ids.extend(spool.ids(state).unwrap_or_default().into_iter().take(LOOKED_AT_MAX));
    }
    let is_part = |id: &&TaskId| id.as_str().starts_with(wanted) || id.as_str().ends_with(wanted);
    let mut parts = ids.iter().filter(is_part).map(TaskId::as_str);
    let near = match (parts.next(), parts.next()) {
        (Some(one), None) => Some(one),
        _ if wanted.len() <= SLIP_BYTES_MAX => nearest(wanted, ids.iter().map(TaskId::as_str)),
        _ => None,
    };
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            "`kron spool ls` lists tasks, with `--state completed` those that have ended, which \
                 go when they are old"
                .to_owned()
        }
    };
    Failure::NoSuch { noun: "task", wanted: excerpt(wanted), hint }
}
