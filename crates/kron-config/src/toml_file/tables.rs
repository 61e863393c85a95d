//! The daemon's tables of a TOML job file: its own, its hooks, the queue and the API.

use std::borrow::Cow;
use std::ops::Range;

use kron_core::Finding;
use kron_core::finding::excerpt;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Document;
use super::values::{in_file_order, setting_value};
use crate::load::{Loader, check_name};
use crate::queue::tables::Kind;
use crate::queue::{self, handler, webhook};
use crate::value::Value;
use crate::{daemon, hook};

/// Applies a key of a table.
type Set = fn(&mut Loader, &'static str, &Value<'_>, &Range<usize>) -> Result<(), Finding>;

type Key<'k, 'a> = &'k Spanned<Cow<'a, str>>;
type Entry<'k, 'a> = (Key<'k, 'a>, &'k Spanned<DeValue<'a>>);

impl Document<'_> {
    pub(super) fn load_daemon(&self, loader: &mut Loader, table: &DeTable<'_>) {
        for entry in in_file_order(table) {
            self.load_key(loader, "daemon", &daemon::KEYS, entry, |loader, key, value, span| {
                loader.daemon().set(key, value, span)
            });
        }
    }

    pub(super) fn load_api(&self, loader: &mut Loader, table: &DeTable<'_>) {
        for entry in in_file_order(table) {
            self.load_key(loader, "api", &queue::API_KEYS, entry, |loader, key, value, span| {
                loader.daemon().api.set(key, value, span)
            });
        }
    }

    pub(super) fn load_queue(&self, loader: &mut Loader, table: &DeTable<'_>) {
        for (key, value) in in_file_order(table) {
            let kind = match key.get_ref().as_ref() {
                "handler" => Kind::Handler,
                "webhook" => Kind::Webhook,
                _ => {
                    let entry = (key, value);
                    self.load_key(
                        loader,
                        "queue",
                        &queue::KEYS,
                        entry,
                        |loader, key, value, at| loader.queue().settings().set(key, value, at),
                    );
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

    /// Reads a key of a table of which there is one.
    fn load_key(
        &self,
        loader: &mut Loader,
        table: &'static str,
        keys: &[&'static str],
        (key, value): Entry<'_, '_>,
        set: Set,
    ) {
        let word = key.get_ref().as_ref();
        let Some(known) = keys.iter().copied().find(|known| *known == word) else {
            let message = format!("unknown key `{}` of `[{table}]`", excerpt(word));
            let all = format!("the keys of `[{table}]` are {}", keys.join(", "));
            let tables = if table == "queue" { &["handler", "webhook"][..] } else { &[] };
            let near = keys.iter().chain(tables).copied();
            let finding = Finding::configuration(key.span(), message).nearest(word, near, all);
            return self.report(loader, finding);
        };
        let place = self.source.location(self.place(key.span()).start);
        let result = match loader.define_key(table, known, place) {
            Ok(()) => set(loader, known, &setting_value(value.get_ref()), &value.span()),
            Err(first) => Err(Finding::configuration(
                key.span(),
                format!("`{known}` of `[{table}]` is defined twice"),
            )
            .help(format!("it is first defined at {first}; keys are unique over all files"))),
        };
        if let Err(finding) = result {
            self.report(loader, finding);
        }
    }

    /// Reads a handler or a webhook.
    fn load_named(&self, loader: &mut Loader, kind: Kind, name: Key<'_, '_>, table: &DeTable<'_>) {
        let word = name.get_ref().as_ref();
        let sound_name = match kind {
            Kind::Handler => queue::check_job_type(word, &name.span()),
            Kind::Webhook => check_name("webhook", word, &name.span()),
        };
        let place = self.source.location(self.place(name.span()).start);
        let named = sound_name.and_then(|()| loader.queue().name(kind, word, place, &name.span()));
        let mut findings: Vec<Finding> = named.err().into_iter().collect();
        match kind {
            Kind::Handler => {
                let mut draft = handler::Draft::default();
                for entry in in_file_order(table) {
                    if let Some((key, value, span)) =
                        known("handler", &handler::KEYS, entry, &mut findings)
                    {
                        draft.set(key, &value, &span, &mut findings);
                    }
                }
                let made = draft.finish(word, &name.span(), loader, &mut findings);
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
    fn report_in_order(&self, loader: &mut Loader, mut findings: Vec<Finding>) {
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
