//! Where manifests go: all to standard output, or each into a file of its own.
//!
//! The steps of [`handover`] are for a file with one manifest: whoever applies a file makes all that
//! is in it at once. So several on one stream have no steps, but a word about that.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use kron_core::UtcSecond;
use serde_json::Value;

use super::cronjob::Migrated;
use super::handover;
use crate::args::ManifestFormat;
use crate::failure::Failure;
use crate::new_file::{self, Access};
use crate::plugin::kubectl::Kubectl;
use crate::plugin::{write_pretty, yaml};

/// What is said for the file in commands when the manifest goes to standard output.
const SOME_FILE: &str = "FILE";

/// How manifests are written.
pub(super) struct Output<'a> {
    pub(super) format: ManifestFormat,
    pub(super) kubectl: &'a Kubectl<'a>,
    pub(super) now: UtcSecond,
}

impl Output<'_> {
    /// Writes all manifests to one stream.
    pub(super) fn write_manifests(
        &self,
        out: &mut dyn Write,
        migrated: &[Migrated],
        err: &mut dyn Write,
    ) -> Result<(), Failure> {
        match (self.format, migrated) {
            (_, []) => {}
            (ManifestFormat::Yaml, [one]) => out.write_all(self.yaml(one, SOME_FILE).as_bytes())?,
            (ManifestFormat::Json, [one]) => {
                self.tell_steps(err, one, SOME_FILE);
                write_pretty(out, &one.kronjob)?;
            }
            (ManifestFormat::Yaml, several) => {
                for line in warning(several.len()) {
                    writeln!(out, "# {line}")?;
                }
                writeln!(out)?;
                for (index, one) in several.iter().enumerate() {
                    if index > 0 {
                        writeln!(out, "---")?;
                    }
                    let text = head(one) + &yaml::document(&one.kronjob);
                    out.write_all(text.as_bytes())?;
                }
            }
            (ManifestFormat::Json, several) => {
                for line in warning(several.len()) {
                    let _ = writeln!(err, "{line}");
                }
                let items: Vec<&Value> = several.iter().map(|one| &one.kronjob).collect();
                write_pretty(out, &List { api_version: "v1", kind: "List", items: &items })?;
            }
        }
        Ok(())
    }

    /// Writes each manifest into a new file, and says whether all were written: what is there
    /// already stays as it is, and keeps no other from being written.
    pub(super) fn write_files(
        &self,
        dir: &Path,
        migrated: &[Migrated],
        err: &mut dyn Write,
    ) -> Result<bool, Failure> {
        std::fs::create_dir_all(dir)
            .map_err(|source| Failure::NotMade { path: dir.to_owned(), source })?;
        let mut seen = BTreeSet::new();
        let (new, taken): (Vec<_>, Vec<_>) = self
            .paths(dir, migrated)
            .into_iter()
            .zip(migrated)
            // A file may hold the same CronJob twice; a link that leads nowhere is in the way, too.
            .partition(|(path, _)| seen.insert(path.clone()) && path.symlink_metadata().is_err());
        for (path, one) in &taken {
            let (file, identity) = (path.display(), one.identity());
            let _ = writeln!(err, "{identity}: not written: `{file}` is there already");
        }
        for (path, one) in new {
            let file = path.display().to_string();
            let text = match self.format {
                ManifestFormat::Yaml => self.yaml(one, &file),
                ManifestFormat::Json => {
                    self.tell_steps(err, one, &file);
                    let mut text = Vec::new();
                    write_pretty(&mut text, &one.kronjob)?;
                    String::from_utf8_lossy(&text).into_owned()
                }
            };
            new_file::write(&path, &text, Access::Public, "--output-dir")?;
            let _ = writeln!(err, "wrote {file}");
        }
        if !taken.is_empty() {
            let _ = writeln!(
                err,
                "hint: nothing is overwritten; remove {}, or say another `--output-dir`",
                if taken.len() == 1 { "that file" } else { "those files" }
            );
        }
        Ok(taken.is_empty())
    }

    /// The file of each manifest; its namespace is in the name where there are several.
    fn paths(&self, dir: &Path, migrated: &[Migrated]) -> Vec<PathBuf> {
        let is_mixed = migrated.windows(2).any(|pair| pair[0].namespace != pair[1].namespace);
        let end = match self.format {
            ManifestFormat::Yaml => "yaml",
            ManifestFormat::Json => "json",
        };
        let path = |one: &Migrated| {
            let prefix = one.namespace.as_deref().filter(|_| is_mixed);
            let prefix = prefix.map_or(String::new(), |namespace| format!("{namespace}."));
            dir.join(format!("{prefix}{}.{end}", one.name))
        };
        migrated.iter().map(path).collect()
    }

    /// A manifest with what there is to know about it above.
    fn yaml(&self, migrated: &Migrated, file: &str) -> String {
        let mut text = head(migrated);
        text.push_str("#\n");
        for step in handover::steps(migrated, self.kubectl, file, self.now) {
            text.push_str(&format!("# {step}\n"));
        }
        text + &yaml::document(&migrated.kronjob)
    }

    fn tell_steps(&self, err: &mut dyn Write, migrated: &Migrated, file: &str) {
        let _ = writeln!(err, "{}:", migrated.identity());
        for step in handover::steps(migrated, self.kubectl, file, self.now) {
            let _ = writeln!(err, "  {step}");
        }
    }
}

/// What a manifest is, and what differs, as comments.
fn head(migrated: &Migrated) -> String {
    let mut text = format!("# KronJob {0}, from the CronJob {0}.\n", migrated.identity());
    for note in migrated.comments() {
        text.push_str(&format!("# - {note}\n"));
    }
    text
}

/// What to know before several manifests are applied at once.
fn warning(number: usize) -> [String; 3] {
    [
        format!(
            "{number} KronJobs. Whoever applies this file makes all of them at once: suspend all"
        ),
        format!(
            "{number} CronJobs before. Or take `--output-dir DIR`, which writes a file for each,"
        ),
        "with the commands to run, and when to run them.".to_owned(),
    ]
}

/// Several objects as one, in the order in which people read them.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    api_version: &'static str,
    kind: &'static str,
    items: &'a [&'a Value],
}
