//! Eight producers, most of which know nothing of Kron: what they share is a directory.
//!
//! Each notes what it has put in the file of acknowledgements, one line with one write, and only
//! when that is durable by its own means.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kron_core::Timestamp;
use kron_spool::{NewTask, Put, Spool, TaskId};
use kron_testkit::chance::Seeded;
use nix::time::{ClockId, clock_gettime};

use crate::spool_crash::checker::Asked;

/// How many there are.
pub(crate) const PRODUCERS: u64 = 8;
/// Tasks that go with one run of a shell.
const SHELL_TASKS: usize = 8;
/// Every how many tasks of a program that repeats itself are put twice.
const REPEATED_ONE_IN: u64 = 8;

/// Puts what it reads, a line with the id and one with the task, by what every system has.
const BY_MV: &str = r#"
while IFS= read -r id && IFS= read -r task; do
  printf '%s\n' "$task" > "$outbox/$id" && sync "$outbox/$id" &&
    mv "$outbox/$id" "$pending/$id.json" && sync "$pending" && echo "$id" >> "$acks" || exit 1
done"#;
/// The same with a second name in place of another.
const BY_LN: &str = r#"
while IFS= read -r id && IFS= read -r task; do
  printf '%s\n' "$task" > "$outbox/$id" && sync "$outbox/$id" &&
    ln "$outbox/$id" "$pending/$id.json" && rm "$outbox/$id" && sync "$pending" &&
    echo "$id" >> "$acks" || exit 1
done"#;

/// How a producer puts tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// With the library, so many at once.
    Library {
        batch: usize,
    },
    /// With the library, each batch a second time, as one does who was not answered.
    LibraryTwice {
        batch: usize,
    },
    /// A temporary file in `pending/` itself, synced, renamed, the directory synced; some of them
    /// twice.
    Rename,
    /// The same from another directory.
    RenameFromElsewhere,
    Mv,
    Ln,
}

impl Way {
    pub(crate) fn of(producer: u64) -> Way {
        match producer {
            0 => Way::Library { batch: 1 },
            1 => Way::Library { batch: 64 },
            2 => Way::Library { batch: 7 },
            3 => Way::LibraryTwice { batch: 16 },
            4 => Way::Rename,
            5 => Way::RenameFromElsewhere,
            6 => Way::Mv,
            _ => Way::Ln,
        }
    }

    /// How many tasks go at once.
    pub(crate) fn batch(self) -> usize {
        match self {
            Way::Library { batch } | Way::LibraryTwice { batch } => batch,
            Way::Rename | Way::RenameFromElsewhere => 1,
            Way::Mv | Way::Ln => SHELL_TASKS,
        }
    }

    /// Whether it puts this one more than once, without looking.
    pub(crate) fn repeats(self, seeded: &mut Seeded) -> bool {
        self == Way::Rename && seeded.below(REPEATED_ONE_IN) == 0
    }
}

/// Where a producer puts what it has.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The spool.
    pub(crate) dir: PathBuf,
    /// A directory of the producers' own, on the same file system.
    pub(crate) outbox: PathBuf,
    pub(crate) acks: PathBuf,
}

impl Place {
    pub(crate) fn pending(&self) -> PathBuf {
        self.dir.join("tasks").join("pending")
    }

    /// Puts tasks, and notes that they are durable.
    pub(crate) fn put(&self, way: Way, tasks: &[(String, Asked)]) {
        match way {
            Way::Library { .. } => self.by_library(tasks),
            Way::LibraryTwice { .. } => {
                self.by_library(tasks);
                self.by_library(tasks);
            }
            Way::Rename | Way::RenameFromElsewhere => {
                for (id, asked) in tasks {
                    let text = text(id, asked);
                    let first = match way {
                        Way::Rename => self.pending().join(format!(".new-{id}")),
                        _ => self.outbox.join(id),
                    };
                    for _ in 0..=usize::from(asked.repeated) {
                        self.by_rename(&first, &format!("{id}.json"), &text);
                    }
                    self.note(id);
                }
            }
            Way::Mv => self.by_shell(BY_MV, tasks),
            Way::Ln => self.by_shell(BY_LN, tasks),
        }
    }

    fn by_library(&self, tasks: &[(String, Asked)]) {
        let spool = Spool::open_to_put(&self.dir).unwrap();
        let new = |(id, asked): &(String, Asked)| {
            let data = format!("{{\"mark\": \"{}\"}}", asked.mark);
            NewTask::new(TaskId::new(id).unwrap(), asked.kind.name(), &data).unwrap()
        };
        let new: Vec<NewTask> = tasks.iter().map(new).collect();
        let now = clock_gettime(ClockId::CLOCK_REALTIME).unwrap();
        let now_ms = now.tv_sec() * 1_000 + now.tv_nsec() / 1_000_000;
        let put = spool.put(&new, Timestamp::from_unix_ms(now_ms).unwrap());
        for (answer, (id, _)) in put.into_iter().zip(tasks) {
            match answer.unwrap() {
                Put::New | Put::Present { .. } => self.note(id),
            }
        }
    }

    /// Puts one file as any program can.
    pub(crate) fn by_rename(&self, first: &Path, name: &str, text: &str) {
        let pending = self.pending();
        let written = (|| -> io::Result<()> {
            let mut file = File::create(first)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(first, pending.join(name))?;
            File::open(&pending)?.sync_all()
        })();
        written.unwrap_or_else(|error| panic!("{name} was not put: {error}"));
    }

    fn by_shell(&self, script: &str, tasks: &[(String, Asked)]) {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(script).stdin(Stdio::piped());
        shell.env("outbox", &self.outbox).env("pending", self.pending()).env("acks", &self.acks);
        let mut shell = shell.spawn().unwrap();
        let mut stdin = shell.stdin.take().unwrap();
        for (id, asked) in tasks {
            writeln!(stdin, "{id}\n{}", text(id, asked)).unwrap();
        }
        drop(stdin);
        assert!(shell.wait().unwrap().success(), "the shell put only a part of {tasks:?}");
    }

    fn note(&self, id: &str) {
        let mut acks = File::options().create(true).append(true).open(&self.acks).unwrap();
        acks.write_all(format!("{id}\n").as_bytes()).unwrap();
    }
}

/// The file of a task, in one line.
pub(crate) fn text(id: &str, asked: &Asked) -> String {
    let Asked { kind, mark, .. } = asked;
    format!(
        "{{\"taskId\":\"{id}\",\"state\":\"PENDING\",\"createdAt\":\"2026-01-06T10:15:30Z\",\
         \"payload\":{{\"type\":\"{kind}\",\"data\":{{\"mark\":\"{mark}\"}}}}}}"
    )
}
