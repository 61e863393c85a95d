//! Spools in a TOML job file: tables `[spool.NAME]`, and key `spool` of a job, which says what task
//! is dropped into one.

use kron_core::Finding;
use kron_core::finding::excerpt;
use toml::Spanned;
use toml::de::DeValue;

use super::Document;
use super::json::Bounds;
use super::tables::{Key, Table};
use super::values::{in_file_order, kind_of, setting_value};
use crate::load::{Loader, check_name};
use crate::queue::check_type;
use crate::queue::handler::Owner;
use crate::spool::SpoolDrop;
use crate::value;

/// The keys of `spool` of a job.
const KEYS: [&str; 3] = ["name", "type", "data"];

/// What a task is told. Its file has 256 KiB at most and is nested at most 64 deep, and what Kron
/// writes beside the data takes its share.
const DATA: Bounds = Bounds { key: "data", bytes_max: 192 * 1024, depth_max: 32 };

const EXAMPLE: &str = "as in `spool = { name = \"mail\", type = \"EMAIL_SEND\" }`";

impl Document<'_> {
    /// Reads a table `[spool.NAME]` with its handlers.
    pub(super) fn load_spool(
        &self,
        loader: &mut Loader,
        name: Key<'_, '_>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let word = name.get_ref().as_ref();
        let DeValue::Table(table) = value.get_ref() else {
            let message = format!("`spool.{}` is not a table", excerpt(word));
            let finding = Finding::configuration(name.span(), message)
                .help("a spool is a table of its own: `[spool.NAME]`");
            return self.report(loader, finding);
        };
        let place = self.source.location(self.place(name.span()).start);
        let opened = check_name("spool", word, &name.span())
            .and_then(|()| loader.spools().open(word, place, &name.span()));
        if let Err(finding) = opened {
            return self.report(loader, finding);
        }
        for (key, value) in in_file_order(table) {
            if key.get_ref() != "handler" {
                self.load_key(loader, Table::Spool(word), (key, value));
                continue;
            }
            let not_a_table = |key: Key<'_, '_>, path: &str| {
                let message = format!("`spool.{}.{path}` is not a table", excerpt(word));
                Finding::configuration(key.span(), message)
                    .help("a handler is a table of its own: `[spool.NAME.handler.TYPE]`")
            };
            let DeValue::Table(handlers) = value.get_ref() else {
                self.report(loader, not_a_table(key, "handler"));
                continue;
            };
            for (task_type, value) in in_file_order(handlers) {
                match value.get_ref() {
                    DeValue::Table(_) => self.load_spool_handler(loader, word, task_type, value),
                    _ => {
                        let path = format!("handler.{}", excerpt(task_type.get_ref()));
                        self.report(loader, not_a_table(task_type, &path));
                    }
                }
            }
        }
    }

    fn load_spool_handler(
        &self,
        loader: &mut Loader,
        spool: &str,
        task_type: Key<'_, '_>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let Some(table) = value.get_ref().as_table() else { return };
        let (word, span) = (task_type.get_ref().as_ref(), task_type.span());
        let place = self.source.location(self.place(span.clone()).start);
        let named = check_type(Owner::Spool.type_word(), word, &span)
            .and_then(|()| loader.spools().name_handler(spool, word, place, &span));
        let mut findings: Vec<Finding> = named.err().into_iter().collect();
        let made = Self::read_handler(loader, Owner::Spool, task_type, table, &mut findings);
        if let (Some((handler, retry)), true) = (made, findings.is_empty()) {
            loader.spools().add_handler(spool, handler, retry);
        }
        self.report_in_order(loader, findings);
    }
}

/// What task a job drops; `None` when it is at fault.
pub(super) fn read_drop(
    value: &Spanned<DeValue<'_>>,
    findings: &mut Vec<Finding>,
) -> Option<SpoolDrop> {
    let DeValue::Table(table) = value.get_ref() else {
        let message = format!("expected a table, found {}", kind_of(value.get_ref()));
        findings.push(Finding::configuration(value.span(), message).help(EXAMPLE));
        return None;
    };
    let before = findings.len();
    let mut spool = None;
    let mut task_type = None;
    let mut data = Some("{}".into());
    for (key, value) in in_file_order(table) {
        let word = key.get_ref().as_ref();
        let setting = setting_value(value.get_ref());
        let result = match word {
            "name" => value::text(&setting, &value.span()).and_then(|text| {
                spool = Some(text.into());
                check_name("spool", text, &value.span())
            }),
            "type" => value::text(&setting, &value.span()).and_then(|text| {
                task_type = Some(text.into());
                check_type(Owner::Spool.type_word(), text, &value.span())
            }),
            "data" => {
                data = DATA.json_text(value, findings);
                Ok(())
            }
            _ => {
                let message = format!("unknown key `{}` of `spool`", excerpt(word));
                let all = format!("the keys of `spool` are {}", KEYS.join(", "));
                Err(Finding::configuration(key.span(), message).nearest(word, KEYS, all))
            }
        };
        findings.extend(result.err());
    }
    for key in ["name", "type"].into_iter().filter(|key| !table.contains_key(*key)) {
        let message = format!("`spool` without `{key}`");
        findings.push(Finding::configuration(value.span(), message).help(EXAMPLE));
    }
    let sound = findings.len() == before;
    let drop = SpoolDrop { spool: spool?, task_type: task_type?, data: data? };
    sound.then_some(drop)
}
