//! `kron spool purge`: the end of what is old.

use std::io::Write;

use kron_core::{Finding, Seconds};
use krond::api::view::{SpoolPurge, SpoolPurged};

use super::note;
use crate::args::{OutputFormat, SpoolPurgeArgs};
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::spool::place::{self, Place};
use crate::text::{count, write_json};

pub(crate) fn run(args: &SpoolPurgeArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let wrong = Failure::argument("--older-than");
    let older_than = Seconds::parse(&args.older_than).map_err(&wrong)?;
    let ms = older_than.get_signed().checked_mul(1_000);
    let ms = ms.ok_or_else(|| wrong(Finding::validation(0..0, "that is too long")))?;
    let Place { dir, daemon } = Place::of(&args.place)?;
    let mut left = 0;
    let purged: SpoolPurged = match daemon {
        Some(asked) => {
            let order = SpoolPurge { older_than_s: older_than.get(), rejected: args.rejected };
            asked.client.post(&asked.path("purge"), &order)?
        }
        None => {
            let (spool, _lock) = place::held(&dir)?;
            let now = clock::now_timestamp();
            let before = now.saturating_add_ms(-ms);
            let purged = if args.rejected {
                spool.purge_rejected(before)?
            } else {
                if let Some((id, state)) = place::doubled(&spool)? {
                    return Err(Failure::Doubled { id, state });
                }
                spool.purge(before, now)?
            };
            left = purged.left;
            SpoolPurged {
                completed: purged.completed,
                rejected: purged.rejected,
                temporary: purged.temporary,
            }
        }
    };
    match args.format {
        OutputFormat::Json => write_json(out, &purged)?,
        OutputFormat::Text => writeln!(out, "{}", told(&purged))?,
    }
    if left > 0 {
        out.flush()?;
        let (directories, them) = match left {
            1 => ("1 directory".to_owned(), "it"),
            _ => (format!("{left} directories"), "them"),
        };
        note(&format!("{directories} in `rejected/` stayed, since something is in {them}"));
    }
    Ok(Exit::Ok)
}

fn told(purged: &SpoolPurged) -> String {
    let parts: Vec<String> = [
        (purged.completed, "completed task"),
        (purged.rejected, "rejected thing"),
        (purged.temporary, "unfinished file"),
    ]
    .into_iter()
    .filter(|(number, _)| *number > 0)
    .map(|(number, noun)| count(number as u64, noun))
    .collect();
    match parts.is_empty() {
        true => "there was nothing to remove".to_owned(),
        false => format!("removed {}", parts.join(" and ")),
    }
}
