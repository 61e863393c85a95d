//! What was promised about tasks, and whether a spool keeps it. It reads the files itself and
//! shares nothing with the spool but their names.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use kron_state::Directory as _;
use kron_state::simulated::Disk;
use serde_json::Value;

const BYTES_MAX: u64 = 1 << 24;
const DIRECTORIES: [&str; 3] = ["pending", "running", "completed"];

/// What is promised about one task, or about something that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// It may be there, in whatever state: a producer has left it without a sync.
    Foreign,
    /// It may be there.
    Tried,
    /// It is in one directory.
    There,
    /// It is in one directory and not completed.
    Open,
    /// It is completed, with this exit code.
    Completed(i32),
    /// It is completed or gone.
    Purging,
    /// It is no task, and waits or is set aside.
    Bad,
    /// It is no task, and is set aside with a report.
    Aside,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Promise::Completed(code) => write!(f, "Completed:{code}"),
            other => write!(f, "{other:?}"),
        }
    }
}

impl std::str::FromStr for Promise {
    type Err = String;

    fn from_str(text: &str) -> Result<Promise, String> {
        if let Some(code) = text.strip_prefix("Completed:") {
            return Ok(Promise::Completed(code.parse().map_err(|error| format!("{error}"))?));
        }
        let plain = [
            Promise::Foreign,
            Promise::Tried,
            Promise::There,
            Promise::Open,
            Promise::Purging,
            Promise::Bad,
            Promise::Aside,
        ];
        let found = plain.into_iter().find(|promise| promise.to_string() == text);
        found.ok_or_else(|| format!("no promise: {text}"))
    }
}

/// All that was promised, by the names of files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Promises(pub(crate) BTreeMap<String, Promise>);

impl Promises {
    pub(crate) fn tell(&mut self, name: &str, promise: Promise) {
        self.0.insert(name.to_owned(), promise);
    }

    /// Whether what is there after a recovery keeps all of it.
    pub(crate) fn check(&self, found: &Listing) -> Result<(), String> {
        let mut places: BTreeMap<&str, Vec<(&str, Value)>> = BTreeMap::new();
        for (directory, name, bytes) in found.tasks() {
            if name.starts_with('.') {
                if *directory != "pending" {
                    return Err(format!("a temporary file is left: {directory}/{name}"));
                }
                continue;
            }
            let promise = self.0.get(name);
            if promise.is_none() {
                return Err(format!("{directory}/{name} was put by nobody"));
            }
            let value = match promise {
                Some(Promise::Bad | Promise::Aside | Promise::Foreign) => Value::Null,
                _ => task_in(directory, name, bytes)?,
            };
            places.entry(name).or_default().push((directory, value));
        }
        for (name, promise) in &self.0 {
            let places = places.get(&**name).map_or(&[][..], Vec::as_slice);
            keep(*promise, places, found.rejected(name))
                .map_err(|why| format!("{name}: {promise}, but {why}"))?;
        }
        Ok(())
    }
}

fn keep(promise: Promise, places: &[(&str, Value)], aside: Option<&[u8]>) -> Result<(), String> {
    let directories: Vec<&str> = places.iter().map(|(directory, _)| *directory).collect();
    let told = format!("it is in {directories:?}");
    if matches!(promise, Promise::Bad | Promise::Aside) {
        let report = aside.map(serde_json::from_slice::<Value>);
        let kept = match (promise, &directories[..], report) {
            (Promise::Bad, ["pending"], _) => true,
            (_, [], Some(Ok(report))) => report["reason"].is_string(),
            _ => false,
        };
        return kept.then_some(()).ok_or(told);
    }
    if promise == Promise::Foreign {
        return (directories.len() < 2).then_some(()).ok_or(told);
    }
    if aside.is_some() {
        return Err("it is set aside".to_owned());
    }
    let result = |place: &Value| place["result"]["exitCode"].as_i64();
    let kept = match (promise, places) {
        (Promise::Tried | Promise::Purging, []) => true,
        (Promise::Tried | Promise::There, [_]) => true,
        (Promise::Open, [(directory, _)]) => *directory != "completed",
        (Promise::Purging, [(directory, _)]) => *directory == "completed",
        (Promise::Completed(code), [("completed", task)]) => result(task) == Some(code.into()),
        _ => false,
    };
    kept.then_some(()).ok_or(told)
}

fn task_in(directory: &str, name: &str, bytes: &[u8]) -> Result<Value, String> {
    let id = name.strip_suffix(".json").ok_or(format!("{directory}/{name} is no task's name"))?;
    let wrong =
        |what: &str| format!("{directory}/{name} {what}: {:?}", String::from_utf8_lossy(bytes));
    let value: Value = serde_json::from_slice(bytes).map_err(|_| wrong("is no JSON"))?;
    if value["taskId"] != id || value["payload"]["data"]["of"] != id {
        return Err(wrong("is another task"));
    }
    if value["state"] != directory.to_uppercase() {
        return Err(wrong("says another state"));
    }
    if (directory == "completed") != value["result"].is_object() {
        return Err(wrong("has a result, or has none"));
    }
    Ok(value)
}

/// Every file of a spool: its directory, its name, and what it holds.
#[derive(Debug)]
pub(crate) struct Listing(pub(crate) Vec<(&'static str, String, Vec<u8>)>);

impl Listing {
    pub(crate) fn of_disk(disk: &Disk) -> Listing {
        let tasks = disk.existing_subdirectory("tasks").unwrap();
        let mut all = Vec::new();
        for (directory, within) in
            DIRECTORIES.map(|it| (it, tasks.as_ref())).into_iter().chain([("rejected", Some(disk))])
        {
            let Some(there) = within.and_then(|it| it.existing_subdirectory(directory).unwrap())
            else {
                continue;
            };
            for name in there.names().unwrap() {
                let bytes = there.read(&name, BYTES_MAX).unwrap().unwrap().bytes;
                all.push((directory, name, bytes));
            }
        }
        Listing(all)
    }

    pub(crate) fn of(spool: &Path) -> Listing {
        let mut all = Vec::new();
        for directory in DIRECTORIES.into_iter().chain(["rejected"]) {
            let path = match directory {
                "rejected" => spool.join(directory),
                _ => spool.join("tasks").join(directory),
            };
            let Ok(entries) = std::fs::read_dir(path) else { continue };
            for entry in entries {
                let entry = entry.unwrap();
                let bytes = match entry.file_type().unwrap().is_file() {
                    true => std::fs::read(entry.path()).unwrap(),
                    false => Vec::new(),
                };
                all.push((directory, entry.file_name().to_string_lossy().into_owned(), bytes));
            }
        }
        all.sort();
        Listing(all)
    }

    fn tasks(&self) -> impl Iterator<Item = &(&'static str, String, Vec<u8>)> {
        self.0.iter().filter(|(directory, ..)| *directory != "rejected")
    }

    /// The report about what was called `name`, if that is set aside, under its name or a number
    /// after it: a report whose file never came holds its name.
    fn rejected(&self, name: &str) -> Option<&[u8]> {
        let named = |wanted: &str| {
            self.0.iter().find(|(directory, found, _)| *directory == "rejected" && found == wanted)
        };
        let numbered = (1..9).map(|number| format!("{name}.{number}"));
        let to = std::iter::once(name.to_owned()).chain(numbered).find(|to| named(to).is_some())?;
        named(&format!("{to}.report")).map(|(.., bytes)| bytes.as_slice())
    }

    /// Where everything is, without what it holds.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.iter().map(|(directory, name, _)| format!("{directory}/{name}")).collect()
    }
}
