//! Reloading, in a thread of its own: files are read and checked while the loop goes on.
//!
//! Whatever is wrong with the new definitions, the old ones stay in force. Orders are served one
//! after the other, so that the definitions read last are those in force last.

use std::io;

use tokio::sync::{mpsc, oneshot};

use super::definitions::{self, DefinitionsError, Sources};
use super::handle::{ReloadFailure, ReloadView};
use super::inbox::{Done, NewDefinitions, Results};
use super::{socket, spool, start, worker};
use crate::log::{Log, told};
use crate::machine::{Entry, Level};

/// Orders that may wait. When that many do, another signal changes nothing: definitions will be
/// read again after it came.
const ORDERS_MAX: usize = 8;

/// Wants the definitions read again.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) origin: Origin,
}

/// Who wants it.
#[derive(Debug)]
pub(super) enum Origin {
    /// A signal.
    Signal,
    /// Somebody who waits to hear how it went.
    Request(oneshot::Sender<Result<ReloadView, ReloadFailure>>),
}

/// Starts the thread. It ends when every sender of orders is gone.
pub(super) fn start(
    sources: Sources,
    results: Results,
    log: Log,
) -> io::Result<mpsc::Sender<Order>> {
    let (sender, mut orders) = mpsc::channel(ORDERS_MAX);
    worker::spawn("reload".to_owned(), move || {
        while let Some(order) = orders.blocking_recv() {
            serve(&sources, order, &results, log);
        }
    })?;
    Ok(sender)
}

fn serve(sources: &Sources, order: Order, results: &Results, log: Log) {
    let reply = match order.origin {
        Origin::Signal => None,
        Origin::Request(reply) => Some(reply),
    };
    match sources.load() {
        // Who may put tasks into a spool is part of what is loaded.
        Ok(found) if let Err(error) = spool::check_producers(&found.settings) => {
            let message = format!("{}; the old definitions stay in force", told(&error));
            log.write(&Entry::new(Level::Error, "reload_failed").error(
                error.category(),
                "reload",
                &message,
            ));
            if let Some(reply) = reply {
                // Whoever asked may have gone.
                let failure =
                    ReloadFailure::Unreadable { category: error.category(), message: told(&error) };
                let _ = reply.send(Err(failure));
            }
        }
        Ok(found) => {
            definitions::show(log, &found.diagnostics, false);
            results.send(Done::Loaded(Box::new(NewDefinitions {
                jobs: found.jobs,
                token: start::token(&found.settings).map_err(|error| error.to_string()),
                socket_group: socket::group_number(&found.settings.socket_group),
                settings: found.settings,
                diagnostics: definitions::rendered(&found.diagnostics, false),
                reply,
            })));
        }
        Err(error) => {
            log.write(&Entry::new(Level::Error, "reload_failed").error(
                error.category(),
                "reload",
                &format!("{error}; the old definitions stay in force"),
            ));
            let failure = match &error {
                DefinitionsError::Invalid { diagnostics, cut_short } => {
                    definitions::show(log, diagnostics, *cut_short);
                    ReloadFailure::Invalid {
                        diagnostics: definitions::rendered(diagnostics, *cut_short),
                    }
                }
                DefinitionsError::Read { .. } => ReloadFailure::Unreadable {
                    category: error.category(),
                    message: error.to_string(),
                },
            };
            if let Some(reply) = reply {
                // Whoever asked may have gone.
                let _ = reply.send(Err(failure));
            }
        }
    }
}
