//! `kron import`: crontabs into native job files, with what differs said line by line.
//!
//! A job file is believed where the crontab might not have been. So what krond would not run from, for
//! its owner or its mode, is told; of a directory such a file is left out, and so is one that is no
//! crontab at all. Whoever names a file by itself means it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use kron_config::files::{self, ReadError, Trust};
use kron_config::local_zone::local_zone;
use kron_config::{CrontabOwner, Fate, Format, Imported, Importer, Options, Source};
use kron_core::Zone;
use kron_core::finding::excerpt;
use nix::unistd::geteuid;

use crate::args::ImportArgs;
use crate::failure::{Exit, Failure};
use crate::jobs::CUT_SHORT;
use crate::new_file::{self, Access};
use crate::text::count;

/// Where crons keep the crontabs of users.
const SPOOLS: [&str; 3] = ["/var/spool/cron/crontabs", "/var/spool/cron/tabs", "/var/spool/cron"];

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
    let choice = match args.file.as_ref().is_some_and(|path| path.is_dir()) {
        true => Choice::Found,
        false => Choice::Named,
    };
    let mut left_out = false;
    for crontab in crontabs {
        let owner = owner(args, &crontab, choice)?;
        let Some(source) = read(&crontab, &owner, choice, &mut err)? else {
            left_out = true;
            continue;
        };
        let imported = importer.import(&source, &owner);
        if choice == Choice::Found && !imported.is_crontab {
            left_out = true;
            let _ = tell_no_crontab(&mut err, &source, &imported);
            continue;
        }
        left_out |= imported.cut_short || imported.lines_left_out > 0;
        // Whoever cannot be told here finds the same in the file.
        let _ = tell(&mut err, &source, &imported);
        match &args.output {
            None => out.write_all(imported.toml.as_bytes())?,
            Some(path) => {
                let path = target(path, &crontab, args.user.as_deref());
                // A user's crontab is nobody else's to read.
                new_file::write(&path, &imported.toml, Access::Private, "--output")?;
                let _ = writeln!(err, "wrote {}", path.display());
            }
        }
    }
    Ok(if left_out { Exit::No } else { Exit::Ok })
}

/// How a crontab was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// By whoever asked for it.
    Named,
    /// It is in the directory that was asked for.
    Found,
}

/// Reads a crontab, and tells when krond would not run from it; `None` when it is left out for that.
/// Users' crontabs, which krond does not read, belong to their users.
fn read(
    crontab: &Path,
    owner: &CrontabOwner,
    choice: Choice,
    err: &mut dyn Write,
) -> Result<Option<Source>, Failure> {
    let trust = match owner {
        CrontabOwner::System => Trust::RootAnd(geteuid().as_raw()),
        CrontabOwner::User(_) => Trust::Anybody,
    };
    let error = match files::read_crontab(crontab, trust) {
        Err(error @ (ReadError::WrongOwner { .. } | ReadError::Writable { .. })) => error,
        read => return Ok(Some(read?)),
    };
    let file = crontab.display();
    let _ = match choice {
        Choice::Found => writeln!(err, "{file}: left out: {error}"),
        Choice::Named => writeln!(err, "{file}: differs: krond would leave it out: {error}"),
    };
    if let Some(hint) = error.hint() {
        let _ = writeln!(err, "  hint: {hint}");
    }
    match choice {
        Choice::Found => Ok(None),
        Choice::Named => Ok(Some(files::read_crontab(crontab, Trust::Anybody)?)),
    }
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
fn owner(args: &ImportArgs, crontab: &Path, choice: Choice) -> Result<CrontabOwner, Failure> {
    if args.system {
        return Ok(CrontabOwner::System);
    }
    if let Some(user) = &args.user {
        return CrontabOwner::user(user).map_err(Failure::argument("--user"));
    }
    match files::format_of(crontab) {
        Some(Format::Crontab(owner)) => Ok(owner),
        _ if choice == Choice::Found => Ok(CrontabOwner::System),
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
    let (jobs, lines) = (imported.jobs as u64, imported.lines_left_out as u64);
    writeln!(err, "{file}: {}, {} left out", count(jobs, "job"), count(lines, "line"))
}

/// Says that a file is not what is looked for. It may hold anything, so nothing of it is repeated.
fn tell_no_crontab(err: &mut dyn Write, source: &Source, imported: &Imported) -> io::Result<()> {
    let file = source.name();
    let lines = count(imported.lines_left_out as u64, "line");
    writeln!(err, "{file}: left out: it has no crontab entry, and {lines} that cannot be read")?;
    writeln!(err, "  hint: named by itself, it is told line by line")
}
