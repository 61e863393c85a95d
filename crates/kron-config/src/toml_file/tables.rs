//! The daemon's tables of a TOML job file: its own, its hooks, the queue and the API. Those of spools
//! are read with what is shared from here.

use std::borrow::Cow;
use std::ops::Range;

use kron_core::Finding;
use kron_core::finding::excerpt;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Document;
use super::values::{in_file_order, setting_value};
use crate::load::{Loader, check_name};
use crate::queue::handler::{self, OwnRetry, Owner};
use crate::queue::tables::Kind;
use crate::queue::{self, Handler, webhook};
use crate::source::Location;
use crate::value::Value;
use crate::{daemon, hook, spool};

pub(super) type Key<'k, 'a> = &'k Spanned<Cow<'a, str>>;
type Entry<'k, 'a> = (Key<'k, 'a>, &'k Spanned<DeValue<'a>>);

/// A table whose keys are merged over all files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table<'n> {
    Daemon,
    Api,
    Queue,
    Spool(&'n str),
}

impl Table<'_> {
    /// Its header without the brackets.
    fn title(self) -> String {
        match self {
            Table::Daemon => "daemon".to_owned(),
            Table::Api => "api".to_owned(),
            Table::Queue => "queue".to_owned(),
            Table::Spool(name) => format!("spool.{}", excerpt(name)),
        }
    }

    fn keys(self) -> &'static [&'static str] {
        match self {
            Table::Daemon => &daemon::KEYS,
            Table::Api => &queue::API_KEYS,
            Table::Queue => &queue::KEYS,
            Table::Spool(_) => &spool::KEYS,
        }
    }

    /// The tables below it.
    fn below(self) -> &'static [&'static str] {
        match self {
            Table::Daemon | Table::Api => &[],
            Table::Queue => &["handler", "webhook"],
            Table::Spool(_) => &["handler"],
        }
    }

    /// Notes that a key stands at `place`, or says where it was given before.
    fn define(
        self,
        loader: &mut Loader,
        key: &'static str,
        place: Location,
    ) -> Result<(), Location> {
        match self {
            Table::Daemon => loader.define_key("daemon", key, place),
            Table::Api => loader.define_key("api", key, place),
            Table::Queue => loader.define_key("queue", key, place),
            Table::Spool(name) => loader.spools().define_key(name, key, place),
        }
    }

    /// Applies `key = value`.
    fn set(
        self,
        loader: &mut Loader,
        key: &'static str,
        value: &Value<'_>,
        span: &Range<usize>,
    ) -> Result<(), Vec<Finding>> {
        let result = match self {
            Table::Daemon => loader.daemon().set(key, value, span),
            Table::Api => loader.daemon().api.set(key, value, span),
            Table::Queue => loader.queue().settings().set(key, value, span),
            Table::Spool(name) => return loader.spools().set(name, key, value, span),
        };
        result.map_err(|finding| vec![finding])
    }
}

impl Document<'_> {
    pub(super) fn load_daemon(&self, loader: &mut Loader, table: &DeTable<'_>) {
        for entry in in_file_order(table) {
            self.load_key(loader, Table::Daemon, entry);
        }
    }

    pub(super) fn load_api(&self, loader: &mut Loader, table: &DeTable<'_>) {
        for entry in in_file_order(table) {
            self.load_key(loader, Table::Api, entry);
        }
    }

    pub(super) fn load_queue(&self, loader: &mut Loader, table: &DeTable<'_>) {
        for (key, value) in in_file_order(table) {
            let kind = match key.get_ref().as_ref() {
                "handler" => Kind::Handler,
                "webhook" => Kind::Webhook,
                _ => {
                    self.load_key(loader, Table::Queue, (key, value));
                    continue;
                }
            };
            let DeValue::Table(tables) = value.get_ref() else {
                self.report(loader, not_a_table(kind, key, kind.as_str()));
                continue;
            };
            for (name, value) in in_file_order(tables) {
                match value.get_ref() {
                    DeValue::Table(table) => self.load_named(loader, kind, name, table),
                    _ => {
                        let path = format!("{}.{}", kind.as_str(), excerpt(name.get_ref()));
                        self.report(loader, not_a_table(kind, name, &path));
                    }
                }
            }
        }
    }

    /// Reads a key of a table whose keys are merged over all files.
    pub(super) fn load_key(
        &self,
        loader: &mut Loader,
        table: Table<'_>,
        (key, value): Entry<'_, '_>,
    ) {
        let (word, keys, title) = (key.get_ref().as_ref(), table.keys(), table.title());
        let Some(known) = keys.iter().copied().find(|known| *known == word) else {
            let message = format!("unknown key `{}` of `[{title}]`", excerpt(word));
            let all = format!("the keys of `[{title}]` are {}", keys.join(", "));
            let near = keys.iter().chain(table.below()).copied();
            let finding = Finding::configuration(key.span(), message).nearest(word, near, all);
            return self.report(loader, finding);
        };
        let place = self.source.location(self.place(key.span()).start);
        let result = match table.define(loader, known, place) {
            Ok(()) => table.set(loader, known, &setting_value(value.get_ref()), &value.span()),
            Err(first) => Err(vec![
                Finding::configuration(
                    key.span(),
                    format!("`{known}` of `[{title}]` is defined twice"),
                )
                .help(format!("it is first defined at {first}; keys are unique over all files")),
            ]),
        };
        for finding in result.err().into_iter().flatten() {
            self.report(loader, finding);
        }
    }

    /// Reads a handler or a webhook.
    fn load_named(&self, loader: &mut Loader, kind: Kind, name: Key<'_, '_>, table: &DeTable<'_>) {
        let word = name.get_ref().as_ref();
        let sound_name = match kind {
            Kind::Handler => queue::check_type(Owner::Queue.type_word(), word, &name.span()),
            Kind::Webhook => check_name("webhook", word, &name.span()),
        };
        let place = self.source.location(self.place(name.span()).start);
        let named = sound_name.and_then(|()| loader.queue().name(kind, word, place, &name.span()));
        let mut findings: Vec<Finding> = named.err().into_iter().collect();
        match kind {
            Kind::Handler => {
                let made = Self::read_handler(loader, Owner::Queue, name, table, &mut findings);
                if let (Some((handler, retry)), true) = (made, findings.is_empty()) {
                    loader.queue().add_handler(handler, retry);
                }
            }
            Kind::Webhook => {
                let mut draft = webhook::Draft::default();
                for entry in in_file_order(table) {
                    if let Some((key, value, span)) =
                        known("webhook", &webhook::KEYS, entry, &mut findings)
                        && let Err(faults) = draft.set(key, &value, &span)
                    {
                        findings.extend(faults);
                    }
                }
                let made = draft.finish(word, &name.span(), &mut findings);
                if let (Some(webhook), true) = (made, findings.is_empty()) {
                    loader.queue().add_webhook(webhook);
                }
            }
        }
        self.report_in_order(loader, findings);
    }

    /// Reads what a handler of the queue or of a spool says.
    pub(super) fn read_handler(
        loader: &mut Loader,
        owner: Owner,
        name: Key<'_, '_>,
        table: &DeTable<'_>,
        findings: &mut Vec<Finding>,
    ) -> Option<(Handler, OwnRetry)> {
        let keys = owner.keys();
        let mut draft = handler::Draft::of(owner);
        for (key, value) in in_file_order(table) {
            let word = key.get_ref().as_ref();
            if owner.lacks(word) {
                let message = format!("unknown key `{word}` of a {}", owner.handler());
                let help = format!("a {} is a command", owner.handler());
                findings.push(Finding::configuration(key.span(), message).help(help));
            } else if let Some((key, value, span)) =
                known(owner.handler(), &keys, (key, value), findings)
            {
                draft.set(key, &value, &span, findings);
            }
        }
        draft.finish(name.get_ref(), &name.span(), loader, findings)
    }

    pub(super) fn load_hook(
        &self,
        loader: &mut Loader,
        name: Key<'_, '_>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let DeValue::Table(table) = value.get_ref() else {
            let message = format!("`hook.{}` is not a table", excerpt(name.get_ref()));
            let finding = Finding::configuration(name.span(), message)
                .help("a hook is a table of its own: `[hook.NAME]`");
            return self.report(loader, finding);
        };
        if let Err(finding) = check_name("hook", name.get_ref(), &name.span()) {
            return self.report(loader, finding);
        }
        let mut findings = Vec::new();
        let mut draft = hook::Draft::default();
        for entry in in_file_order(table) {
            if let Some((key, value, span)) = known("hook", &hook::KEYS, entry, &mut findings)
                && let Err(faults) = draft.set(key, &value, &span)
            {
                findings.extend(faults);
            }
        }
        let hook = draft.finish(name.get_ref(), &name.span(), &mut findings);
        if let (Some(hook), true) = (hook, findings.is_empty()) {
            let place = self.source.location(self.place(name.span()).start);
            findings.extend(loader.define_hook(hook, place, &name.span()).err());
        }
        self.report_in_order(loader, findings);
    }

    /// Reports what was found about one table, in the order of the text.
    pub(super) fn report_in_order(&self, loader: &mut Loader, mut findings: Vec<Finding>) {
        findings.sort_by_key(|finding| finding.span.start);
        for finding in findings {
            self.report(loader, finding);
        }
    }
}

/// An entry of a hook, handler or webhook, unless it has no such key.
fn known<'v>(
    what: &str,
    keys: &[&'static str],
    (key, value): Entry<'v, '_>,
    findings: &mut Vec<Finding>,
) -> Option<(&'static str, Value<'v>, Range<usize>)> {
    let word = key.get_ref().as_ref();
    let Some(known) = keys.iter().copied().find(|known| *known == word) else {
        let message = format!("unknown key `{}` of a {what}", excerpt(word));
        let all = format!("the keys of a {what} are {}", keys.join(", "));
        let finding = Finding::configuration(key.span(), message);
        findings.push(finding.nearest(word, keys.iter().copied(), all));
        return None;
    };
    Some((known, setting_value(value.get_ref()), value.span()))
}

/// Says that what stands under `[queue]` is no table.
fn not_a_table(kind: Kind, key: Key<'_, '_>, path: &str) -> Finding {
    let help = match kind {
        Kind::Handler => "a handler is a table of its own: `[queue.handler.TYPE]`",
        Kind::Webhook => "a webhook is a table of its own: `[queue.webhook.NAME]`",
    };
    Finding::configuration(key.span(), format!("`queue.{path}` is not a table")).help(help)
}
