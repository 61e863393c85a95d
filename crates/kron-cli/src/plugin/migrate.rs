//! `kubectl kron migrate`: CronJobs into KronJobs, with what differs said one by one.
//!
//! CronJobs come from the cluster or from files; KronJobs go to standard output or into new files.
//! [`cronjob`] turns one into the other, [`handover`] says how to change from one to the other,
//! [`compare`] sets them side by side, [`output`] writes them.
//!
//! **Invariant:** nothing is written to the cluster, and no file is overwritten.

mod compare;
mod cronjob;
mod handover;
mod output;
mod schedule;

use std::io::{self, Write};

use kron_config::files;
use kron_core::{Finding, Modifier, Piece, Seconds, TimingParser, Zone};
use serde_json::{Map, Value, json};

use self::cronjob::{LeftOut, Migrated, Wishes};
use self::output::Output;
use super::kubectl::{Kubectl, Which};
use crate::args::MigrateArgs;
use crate::failure::{Exit, Failure};
use crate::jobs;
use crate::text::count;

/// The resource, so that no other kind of that name is meant.
pub(super) const KIND: &str = "cronjobs.batch";

pub(crate) fn run(
    args: &MigrateArgs,
    kubectl: &Kubectl<'_>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let now = jobs::time("--at", args.at.as_deref())?;
    let wishes = wishes(args, kubectl)?;
    let objects = match args.files.is_empty() {
        true => kubectl.list(KIND, Which::of(&args.names, &args.choice))?,
        false => read_files(args)?,
    };
    let mut parser = TimingParser::new();
    let results: Vec<Result<Migrated, LeftOut>> =
        objects.iter().map(|object| cronjob::migrate(&mut parser, object, &wishes, now)).collect();
    let mut err = io::stderr().lock();
    // Whoever cannot be told here finds what differs in the manifests. A comparison has it on the
    // same terminal.
    let _ = match args.diff {
        true => Ok(()),
        false => tell_notes(&mut err, &results),
    };
    let _ = tell_left_out(&mut err, &results);
    let mut is_complete = !results.is_empty() && results.iter().all(Result::is_ok);
    let migrated: Vec<Migrated> = results.into_iter().filter_map(Result::ok).collect();
    let output = Output { format: args.format, kubectl, now };
    if args.diff {
        for one in &migrated {
            compare::write(out, one, &one.identity(), now)?;
        }
    } else if let Some(dir) = &args.output_dir {
        is_complete &= output.write_files(dir, &migrated, &mut err)?;
    } else {
        output.write_manifests(out, &migrated, &mut err)?;
    }
    Ok(if is_complete { Exit::Ok } else { Exit::No })
}

impl Migrated {
    /// How it is called in what is told.
    fn identity(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }

    /// What differs, as comments. A comment ends with its line, whatever a manifest says in it.
    fn comments(&self) -> impl Iterator<Item = String> {
        let plain = |it: char| if it.is_control() { ' ' } else { it };
        self.notes.iter().map(move |note| note.chars().map(plain).collect())
    }
}

/// What the flags ask for, each checked by the engine.
fn wishes(args: &MigrateArgs, kubectl: &Kubectl<'_>) -> Result<Wishes, Failure> {
    let window = args.window.as_deref().map(window).transpose()?;
    let distribution = args.distribution.as_deref().map(distribution).transpose()?;
    if let Some(name) = &args.timezone {
        Zone::named(name).map_err(Failure::argument("--timezone"))?;
    }
    let namespace = kubectl.namespace().map(str::to_owned);
    Ok(Wishes { window, distribution, zone: args.timezone.clone(), namespace })
}

/// `5m`, or `around,5m`.
fn window(text: &str) -> Result<(String, Seconds), Failure> {
    let (mode, length) = text.split_once(',').unwrap_or(("after", text));
    check(Modifier::Win, &format!("{mode},{length}"), "--window")?;
    let length = Seconds::parse(length.trim()).map_err(Failure::argument("--window"))?;
    Ok((mode.trim().to_owned(), length))
}

/// `skewEarly,shape=3`, as a spec says it.
fn distribution(text: &str) -> Result<Value, Failure> {
    check(Modifier::Dist, text, "--distribution")?;
    let mut parts = text.split(',').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let mut params = Map::new();
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        // Numbers are written as numbers, as they are in most manifests.
        let number = || value.trim().parse::<serde_json::Number>().ok().map(Value::Number);
        let value = number().unwrap_or_else(|| json!(value.trim()));
        params.insert(key.trim().to_owned(), value);
    }
    Ok(match params.is_empty() {
        true => json!({ "name": name }),
        false => json!({ "name": name, "params": params }),
    })
}

/// Looks whether the engine takes an argument.
fn check(modifier: Modifier, text: &str, argument: &'static str) -> Result<(), Failure> {
    let mut findings = Vec::new();
    let mut draft = kron_core::Draft::new("migrate", kron_core::Host::default());
    TimingParser::new().modifier_text(&mut draft, modifier, Piece::whole(text), &mut findings);
    match findings.into_iter().find(Finding::is_error) {
        Some(finding) => Err(Failure::argument(argument)(finding)),
        None => Ok(()),
    }
}

/// The CronJobs of files; other objects are passed over, as a chart has many.
fn read_files(args: &MigrateArgs) -> Result<Vec<Value>, Failure> {
    let mut cronjobs = Vec::new();
    for path in &args.files {
        let source = files::read(path)?;
        let documents = documents(source.text()).map_err(|message| Failure::Unclear {
            message: format!("`{}` cannot be read: {message}", path.display()),
            hint: "manifests are YAML or JSON, as `kubectl get cronjobs -o yaml` writes them"
                .to_owned(),
        })?;
        let mut pending: Vec<Value> = documents.into_iter().rev().collect();
        while let Some(object) = pending.pop() {
            if let Some(items) = object["items"].as_array() {
                pending.extend(items.iter().rev().cloned());
            } else if cronjob::is_cronjob(&object) {
                cronjobs.push(object);
            }
        }
    }
    Ok(cronjobs)
}

/// The documents of a text of YAML or JSON. Not all JSON is read as YAML: pairs of surrogates are not.
fn documents(text: &str) -> Result<Vec<Value>, String> {
    if text.trim_start().starts_with(['{', '[']) {
        let json: Result<Vec<Value>, _> =
            serde_json::Deserializer::from_str(text).into_iter().collect();
        if let Ok(documents) = json {
            return Ok(documents);
        }
    }
    serde_saphyr::from_multiple(text).map_err(|error| {
        // Its first line says what and where; the rest shows the text again.
        let error = error.to_string();
        let first = error.lines().next().unwrap_or_default();
        first.strip_prefix("error: ").unwrap_or(first).to_owned()
    })
}

/// Says what differs.
fn tell_notes(err: &mut dyn Write, results: &[Result<Migrated, LeftOut>]) -> io::Result<()> {
    for migrated in results.iter().flatten() {
        for note in &migrated.notes {
            writeln!(err, "{}: {note}", migrated.identity())?;
        }
    }
    Ok(())
}

/// Says what is left out, and how many are not.
fn tell_left_out(err: &mut dyn Write, results: &[Result<Migrated, LeftOut>]) -> io::Result<()> {
    let mut left_out = 0;
    for LeftOut { identity, reason } in results.iter().filter_map(|result| result.as_ref().err()) {
        left_out += 1;
        writeln!(err, "{identity}: left out: {reason}")?;
    }
    if results.is_empty() {
        return writeln!(err, "there is no CronJob here");
    }
    let taken = count(results.len() as u64 - left_out, "KronJob");
    writeln!(err, "{taken}, {} left out", count(left_out, "CronJob"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_yaml_or_json() {
        for text in [
            "a: 1\n---\nb: \"\u{1f600}\"\n",
            "{\"a\": 1}\n{\"b\": \"\\ud83d\\ude00\"}\n",
            "{a: 1}\n---\n{b: \"\\U0001F600\"}\n",
        ] {
            let read = documents(text).unwrap();
            assert_eq!(read, [json!({"a": 1}), json!({"b": "\u{1f600}"})], "{text}");
        }
        assert!(documents("{").is_err());
        assert!(documents("a: 1\na: 2\n").is_err(), "a key is there twice");
    }

    #[test]
    fn flags_become_what_a_spec_says() {
        for (text, mode, seconds) in
            [("5m", "after", 300), ("around,1h", "around", 3_600), ("before, 2s", "before", 2)]
        {
            let (found, length) = window(text).unwrap();
            assert_eq!((found.as_str(), length), (mode, Seconds::new(seconds)), "{text}");
        }
        for text in ["", "5", "sideways,5m", "after,5m,6m", "-5m", "9999d"] {
            assert!(window(text).is_err(), "{text}");
        }
        for (text, expected) in [
            ("uniform", json!({"name": "uniform"})),
            ("skewEarly,shape=3", json!({"name": "skewEarly", "params": {"shape": 3}})),
            (
                "normal, mu=mid,sigma=2m",
                json!({"name": "normal", "params": {"mu": "mid", "sigma": "2m"}}),
            ),
        ] {
            assert_eq!(distribution(text).unwrap(), expected, "{text}");
        }
        for text in ["", "square", "skewEarly,shape=0", "skewEarly,size=2", "normal,3"] {
            assert!(distribution(text).is_err(), "{text}");
        }
    }
}
