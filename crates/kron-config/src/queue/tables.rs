//! What the files of a set say about the queue, gathered text by text.
//!
//! Handlers and webhooks are whole tables; what a handler leaves to the queue, and whether a job
//! enqueues what nobody handles, is known when every file is read: [`QueueTables::finish`].

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use kron_core::Finding;
use kron_core::finding::excerpt;

use super::handler::{OwnRetry, Owner};
use super::{Handler, QueueSettings, QueueWebhook, RetrySettings};
use crate::source::Location;

/// Handlers that a set of files may have for the queue, or for one spool.
pub(crate) const HANDLERS_MAX: usize = 1_000;
/// Webhooks that a set of files may have.
const WEBHOOKS_MAX: usize = 64;
/// Types without a handler that are told; further ones would be warnings too many.
const TYPES_MAX: usize = 1_000;

/// The queue's tables so far.
#[derive(Debug, Default)]
pub(crate) struct QueueTables {
    /// Whether any of its tables was there, sound or not.
    is_there: bool,
    settings: QueueSettings,
    handlers: BTreeMap<String, (Handler, OwnRetry)>,
    webhooks: BTreeMap<String, QueueWebhook>,
    /// Where each handler was defined, sound or not.
    handler_places: HashMap<Box<str>, Location>,
    webhook_places: HashMap<Box<str>, Location>,
    /// The types that jobs enqueue, and where each does so first.
    enqueued: HashMap<Box<str>, (usize, Location)>,
}

/// A kind of table of which there are several, each with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Handler,
    Webhook,
}

impl Kind {
    /// As it is called in headers and in messages.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Kind::Handler => "handler",
            Kind::Webhook => "webhook",
        }
    }
}

impl QueueTables {
    /// Notes that a file has one of the tables.
    pub(crate) fn note(&mut self) {
        self.is_there = true;
    }

    /// The keys of table `[queue]` itself.
    pub(crate) fn settings(&mut self) -> &mut QueueSettings {
        &mut self.settings
    }

    /// Takes the name of a table, unless it is taken or there are too many.
    pub(crate) fn name(
        &mut self,
        kind: Kind,
        name: &str,
        place: Location,
        name_span: &Range<usize>,
    ) -> Result<(), Finding> {
        let word = kind.as_str();
        let (places, count_max) = match kind {
            Kind::Handler => (&mut self.handler_places, HANDLERS_MAX),
            Kind::Webhook => (&mut self.webhook_places, WEBHOOKS_MAX),
        };
        take_name(places, count_max, word, name, place, name_span)
    }

    pub(crate) fn add_handler(&mut self, handler: Handler, retry: OwnRetry) {
        self.handlers.insert(handler.job_type.clone(), (handler, retry));
    }

    pub(crate) fn add_webhook(&mut self, webhook: QueueWebhook) {
        self.webhooks.insert(webhook.name.clone(), webhook);
    }

    /// Notes that a job enqueues this type.
    pub(crate) fn enqueue(&mut self, job_type: &str, place: &Location) {
        let order = self.enqueued.len();
        if order < TYPES_MAX && !self.enqueued.contains_key(job_type) {
            self.enqueued.insert(job_type.into(), (order, place.clone()));
        }
    }

    /// The queue, if there is one, and what is wrong with all of it together; `wait` is where
    /// `backoff` or `backoff_max` of `[queue]` stands.
    pub(crate) fn finish(
        self,
        wait: Option<Location>,
    ) -> (Option<QueueSettings>, Vec<(Location, Finding)>) {
        let mut found = Vec::new();
        let mut enqueued: Vec<_> = self.enqueued.iter().collect();
        enqueued.sort_unstable_by_key(|(_, (order, _))| *order);
        if !self.is_there {
            if let Some((job_type, (_, place))) = enqueued.first() {
                let message = format!("this job enqueues `{job_type}`, and there is no queue");
                let finding = Finding::configuration(0..0, message)
                    .help("add a table `[queue]`, which may be empty, to any of the files");
                found.push((place.clone(), finding));
            }
            return (None, found);
        }
        let mut settings = self.settings;
        found.extend(wait.zip(too_long(settings.retry, "[queue]", Owner::Queue)));
        for (mut handler, retry) in self.handlers.into_values() {
            handler.retry = retry.over(settings.retry);
            if retry.has_backoff() {
                let table = format!("[queue.handler.{}]", handler.job_type);
                let place = self.handler_places.get(handler.job_type.as_str()).cloned();
                found.extend(place.zip(too_long(handler.retry, &table, Owner::Queue)));
            }
            settings.handlers.push(handler);
        }
        settings.webhooks = self.webhooks.into_values().collect();
        for (job_type, (_, place)) in enqueued {
            if !self.handler_places.contains_key(job_type) {
                let message = format!("this job enqueues `{job_type}`, which has no handler");
                let finding = Finding::warning(0..0, message)
                    .help(format!("its jobs wait until there is `[queue.handler.{job_type}]`"));
                found.push((place.clone(), finding));
            }
        }
        (Some(settings), found)
    }
}

/// Takes the name of a table that `word` says the kind of, unless it is taken or there are too many.
pub(crate) fn take_name(
    places: &mut HashMap<Box<str>, Location>,
    count_max: usize,
    word: &str,
    name: &str,
    place: Location,
    name_span: &Range<usize>,
) -> Result<(), Finding> {
    if let Some(first) = places.get(name) {
        let message = format!("{word} `{}` is defined twice", excerpt(name));
        return Err(Finding::configuration(name_span.clone(), message)
            .help(format!("it is first defined at {first}; {word}s are unique over all files")));
    }
    if places.len() == count_max {
        let message = format!("more than {count_max} {word}s");
        return Err(Finding::validation(name_span.clone(), message));
    }
    places.insert(name.into(), place);
    Ok(())
}

/// A first wait beyond the longest would be cut in silence.
pub(crate) fn too_long(retry: RetrySettings, table: &str, owner: Owner) -> Option<Finding> {
    if retry.backoff <= retry.backoff_max {
        return None;
    }
    let message = format!(
        "`backoff` of `{table}` is {}, longer than its `backoff_max`, {}",
        retry.backoff, retry.backoff_max
    );
    let owner = owner.as_str();
    let help = format!(
        "where it is not given, a handler's `backoff_max` is the {owner}'s, and the {owner}'s 1h"
    );
    Some(Finding::validation(0..0, message).help(help))
}
