//! `kron import`: crontabs into native job files, with what differs said line by line.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use kron_config::files::{self, ReadError, Trust};
use kron_config::local_zone::local_zone;
use kron_config::{CrontabOwner, Fate, Format, Imported, Importer, Options, Source};
use kron_core::Zone;
use kron_core::finding::excerpt;

use crate::args::ImportArgs;
use crate::failure::{Exit, Failure};
use crate::jobs::CUT_SHORT;
use crate::text::count;

/// Where crons keep the crontabs of users.
const SPOOLS: [&str; 3] = ["/var/spool/cron/crontabs", "/var/spool/cron/tabs", "/var/spool/cron"];
/// The permissions of a new file: a user's crontab is nobody else's to read.
const PRIVATE: u32 = 0o600;

pub(crate) fn run(args: &ImportArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut err = io::stderr().lock();
    let options = options(args, &mut err)?;
    let mut importer = Importer::new(options);
    let crontabs = crontabs(args)?;
    if crontabs.len() > 1 && args.output.as_ref().is_some_and(|output| !output.is_dir()) {
        return Err(Failure::Unclear {
            message: "several crontabs do not go into one file".to_owned(),
            hint: "say a directory that is there as `--output`".to_owned(),
        });
    }
    let mut left_out = false;
    for crontab in crontabs {
        let owner = owner(args, &crontab)?;
        let source = files::read_crontab(&crontab, Trust::Anybody)?;
        let imported = importer.import(&source, &owner);
        left_out |= imported.cut_short;
        left_out |= imported.notes.iter().any(|note| note.fate == Fate::LeftOut);
        // Whoever cannot be told here finds the same in the file.
        let _ = tell(&mut err, &source, &imported);
        match &args.output {
            None => out.write_all(imported.toml.as_bytes())?,
            Some(path) => {
                let path = target(path, &crontab, args.user.as_deref());
                write_new(&path, &imported.toml)?;
                let _ = writeln!(err, "wrote {}", path.display());
            }
        }
    }
    Ok(if left_out { Exit::No } else { Exit::Ok })
}

/// How the crontabs are read. A zone that was not given is told, because everything hangs on it.
fn options(args: &ImportArgs, err: &mut dyn Write) -> Result<Options, Failure> {
    let zone = match &args.crontab_timezone {
        Some(name) => Zone::named(name).map_err(Failure::argument("--crontab-timezone"))?,
        None => {
            // The zone of the machine, not of this shell: cron does not see this shell's `TZ`.
            let local = local_zone(None).map_err(|error| Failure::Unclear {
                message: format!("this machine's time zone is not known: {error}"),
                hint: "say `--crontab-timezone ZONE`".to_owned(),
            })?;
            let (name, told_by) = (local.zone.name(), &local.told_by);
            let _ = writeln!(err, "entries without `CRON_TZ` are read in {name}, by {told_by}");
            local.zone
        }
    };
    Ok(Options {
        host_name: args.host.clone(),
        machine_id: args.machine_id.clone(),
        crontab_zone: Some(zone),
    })
}

/// The files that were asked for.
fn crontabs(args: &ImportArgs) -> Result<Vec<PathBuf>, Failure> {
    match (&args.file, &args.user) {
        (Some(path), _) if path == Path::new("-") => Ok(vec![path.clone()]),
        (Some(path), _) => Ok(files::crontabs(path)?),
        (None, user) => Ok(vec![kept_for(user.as_deref().unwrap_or_default())?]),
    }
}

/// The crontab that cron keeps for a user.
fn kept_for(user: &str) -> Result<PathBuf, Failure> {
    let plain = !user.is_empty() && !user.contains('/') && !user.starts_with('.');
    let candidates = SPOOLS.map(|spool| Path::new(spool).join(user));
    // One that may not be read is there all the same, and reading it tells why.
    let is_there = |path: &&PathBuf| {
        path.metadata().map_or_else(
            |error| error.kind() == io::ErrorKind::PermissionDenied,
            |metadata| metadata.is_file(),
        )
    };
    candidates.iter().filter(|_| plain).find(is_there).cloned().ok_or_else(|| Failure::Unclear {
        message: format!("cron keeps no crontab for `{}`", excerpt(user)),
        hint: format!("looked in {}; or say which FILE it is", SPOOLS.join(", ")),
    })
}

/// Whose crontab it is: as was said, or as its name tells. A directory is full of the system's, but
/// where cron keeps those of users.
fn owner(args: &ImportArgs, crontab: &Path) -> Result<CrontabOwner, Failure> {
    if args.system {
        return Ok(CrontabOwner::System);
    }
    if let Some(user) = &args.user {
        return CrontabOwner::user(user).map_err(Failure::argument("--user"));
    }
    match files::format_of(crontab) {
        Some(Format::Crontab(owner)) => Ok(owner),
        _ if args.file.as_ref().is_some_and(|path| path.is_dir()) => Ok(CrontabOwner::System),
        _ => Err(Failure::Unclear {
            message: format!("whose crontab is `{}`?", crontab.display()),
            hint: "say `--user NAME`, or `--system` if each entry names its user".to_owned(),
        }),
    }
}

/// The file to write: as given, or one in that directory, called as the crontab is.
fn target(output: &Path, crontab: &Path, user: Option<&str>) -> PathBuf {
    if !output.is_dir() {
        return output.to_owned();
    }
    let stem = crontab.file_stem().and_then(|stem| stem.to_str()).filter(|stem| *stem != "-");
    output.join(format!("{}.toml", user.or(stem).unwrap_or("crontab").replace('/', "-")))
}

fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |source| Failure::Read(ReadError::Io { path: path.to_owned(), source });
    let mut options = OpenOptions::new();
    let mut file = match options.write(true).create_new(true).mode(PRIVATE).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Failure::Unclear {
                message: format!("`{}` is there already", path.display()),
                hint: "nothing is overwritten; remove it, or say another `--output`".to_owned(),
            });
        }
        result => result.map_err(failed)?,
    };
    file.write_all(text.as_bytes()).map_err(|error| {
        // Half a file would be read as a whole one.
        let _ = std::fs::remove_file(path);
        failed(error)
    })
}

/// Says what differs, line by line.
fn tell(err: &mut dyn Write, source: &Source, imported: &Imported) -> io::Result<()> {
    let file = source.name();
    for note in &imported.notes {
        let word = match note.fate {
            Fate::Differs => "differs",
            Fate::LeftOut => "left out",
        };
        writeln!(err, "{file}:{}: {word}: {}", note.line, note.message)?;
        if let Some(help) = &note.help {
            writeln!(err, "  hint: {help}")?;
        }
    }
    if imported.cut_short {
        writeln!(err, "{file}: {CUT_SHORT}")?;
    }
    let left_out = imported.notes.iter().filter(|note| note.fate == Fate::LeftOut);
    let mut lines: Vec<usize> = left_out.map(|note| note.line).collect();
    lines.dedup();
    let (jobs, lines) = (imported.jobs as u64, lines.len() as u64);
    writeln!(err, "{file}: {}, {} left out", count(jobs, "job"), count(lines, "line"))
}
