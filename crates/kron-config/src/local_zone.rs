//! The zone of this machine's clocks, by its name in the zone database: what cron reads crontabs in.
//!
//! It is found as the C library finds it: `TZ`, else `/etc/localtime`. Since Kron's zones have names
//! and come from a database of its own, a zone that has none, such as a rule spelled out in `TZ`, is
//! refused, never guessed. `/etc/timezone` is believed only where it says the same as
//! `/etc/localtime`, because it moves no clock.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use kron_core::finding::excerpt;
use kron_core::{Zone, zone_names};

/// Bytes that the description of a zone may have.
const ZONE_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The machine's zone.
#[derive(Clone, Debug)]
pub struct LocalZone {
    /// The zone.
    pub zone: Zone,
    /// What told it, for people.
    pub told_by: String,
}

/// Why the machine's zone is not known.
#[derive(Debug, thiserror::Error)]
pub enum LocalZoneError {
    /// What tells it is no name of a zone.
    #[error("{told_by} is `{}`, which is not the name of a time zone", excerpt(text))]
    NotAName {
        /// What tells it.
        told_by: String,
        /// What it says.
        text: String,
    },
    /// It is a copy of a zone's description, and of none that is here.
    #[error("`{}` is like none of the zones in `{}`", localtime.display(), zoneinfo.display())]
    Nameless {
        /// The copy.
        localtime: PathBuf,
        /// Where descriptions with names are.
        zoneinfo: PathBuf,
    },
    /// It could not be read.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The zone of this machine, or of a program whose variable `TZ` is `tz`.
///
/// # Errors
/// The zone has no name that can be found out.
pub fn local_zone(tz: Option<&str>) -> Result<LocalZone, LocalZoneError> {
    let places = Places {
        localtime: Path::new("/etc/localtime"),
        timezone: Path::new("/etc/timezone"),
        zoneinfo: Path::new("/usr/share/zoneinfo"),
    };
    match tz {
        Some(tz) => places.of_variable(tz),
        None => places.of_machine(),
    }
}

/// Where a machine keeps its zone.
struct Places<'a> {
    localtime: &'a Path,
    timezone: &'a Path,
    zoneinfo: &'a Path,
}

impl Places<'_> {
    fn of_variable(&self, tz: &str) -> Result<LocalZone, LocalZoneError> {
        let told_by = "`TZ`".to_owned();
        let name = tz.strip_prefix(':').unwrap_or(tz);
        if name.is_empty() {
            return Ok(LocalZone { zone: Zone::utc(), told_by });
        }
        let name = self.name_in_path(Path::new(name)).unwrap_or_else(|| name.to_owned());
        named(&name, told_by)
    }

    fn of_machine(&self) -> Result<LocalZone, LocalZoneError> {
        let io = |source| LocalZoneError::Io { path: self.localtime.to_owned(), source };
        let told_by = format!("`{}`", self.localtime.display());
        match self.localtime.symlink_metadata() {
            // Clocks without a zone show UTC.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let told_by = format!("the absence of {told_by}");
                Ok(LocalZone { zone: Zone::utc(), told_by })
            }
            Err(error) => Err(io(error)),
            Ok(metadata) if metadata.is_symlink() => {
                let target = self.localtime.read_link().map_err(io)?;
                let resolved = || self.name_in_path(&self.localtime.canonicalize().ok()?);
                match self.name_in_path(&target).or_else(resolved) {
                    Some(name) => named(&name, told_by),
                    None => self.of_copy(),
                }
            }
            Ok(_) => self.of_copy(),
        }
    }

    /// The name of a zone whose description has this path.
    fn name_in_path(&self, path: &Path) -> Option<String> {
        let text = path.to_str()?;
        let inside = match path.strip_prefix(self.zoneinfo) {
            Ok(inside) => inside.to_str()?,
            // A link may be relative, and other systems keep their zones elsewhere.
            Err(_) => text.split_once("/zoneinfo/")?.1,
        };
        let plain = inside.strip_prefix("posix/").or_else(|| inside.strip_prefix("right/"));
        Some(plain.unwrap_or(inside).to_owned())
    }

    /// The zone whose description `/etc/localtime` is a copy of. Several may be alike, and then it
    /// does not matter which; the one that `/etc/timezone` names is preferred, then a city.
    fn of_copy(&self) -> Result<LocalZone, LocalZoneError> {
        let io = |source| LocalZoneError::Io { path: self.localtime.to_owned(), source };
        let copy = read_bounded(self.localtime).map_err(io)?;
        let is_alike = |name: &&str| {
            read_bounded(&self.zoneinfo.join(name)).is_ok_and(|description| description == copy)
        };
        let preferred = read_bounded(self.timezone)
            .ok()
            .and_then(|text| String::from_utf8(text).ok().map(|text| text.trim().to_owned()));
        let mut names: Vec<&str> = zone_names().collect();
        names.sort_unstable_by_key(|name| (!name.contains('/'), *name));
        let alike = preferred
            .as_deref()
            .filter(|name| names.contains(name))
            .filter(is_alike)
            .or_else(|| names.into_iter().find(is_alike))
            .ok_or_else(|| LocalZoneError::Nameless {
                localtime: self.localtime.to_owned(),
                zoneinfo: self.zoneinfo.to_owned(),
            })?;
        named(alike, format!("`{}`, a copy of it", self.localtime.display()))
    }
}

fn named(name: &str, told_by: String) -> Result<LocalZone, LocalZoneError> {
    match Zone::named(name) {
        Ok(zone) => Ok(LocalZone { zone, told_by }),
        Err(_) => Err(LocalZoneError::NotAName { told_by, text: name.to_owned() }),
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(ZONE_FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A machine with three zones, two of them alike.
    struct Machine {
        _parent: tempfile::TempDir,
        dir: PathBuf,
    }

    impl Machine {
        fn new() -> Machine {
            let parent = tempfile::tempdir().expect("a directory");
            let dir = parent.path().join("machine");
            fs::create_dir_all(dir.join("zoneinfo/Europe")).expect("a directory");
            for (zone, description) in
                [("Paris", "CET"), ("Berlin", "CET"), ("London", "GMT"), ("Atlantis", "ATL")]
            {
                fs::write(dir.join("zoneinfo/Europe").join(zone), description).expect("a file");
            }
            Machine { _parent: parent, dir }
        }

        fn zone(&self, tz: Option<&str>) -> String {
            let places = Places {
                localtime: &self.dir.join("localtime"),
                timezone: &self.dir.join("timezone"),
                zoneinfo: &self.dir.join("zoneinfo"),
            };
            let found = match tz {
                Some(tz) => places.of_variable(tz),
                None => places.of_machine(),
            };
            let text = match found {
                Ok(local) => format!("{} by {}", local.zone.name(), local.told_by),
                Err(error) => format!("error: {error}"),
            };
            text.replace(self.dir.to_str().expect("UTF-8"), "")
        }

        fn link(&self, target: &str) -> String {
            let _ = fs::remove_file(self.dir.join("localtime"));
            symlink(target, self.dir.join("localtime")).expect("a link");
            self.zone(None)
        }

        fn copy(&self, description: &str, timezone: &str) -> String {
            let _ = fs::remove_file(self.dir.join("localtime"));
            fs::write(self.dir.join("localtime"), description).expect("a file");
            fs::write(self.dir.join("timezone"), timezone).expect("a file");
            self.zone(None)
        }
    }

    #[test]
    fn the_variable_comes_first() {
        let machine = Machine::new();
        machine.link("zoneinfo/Europe/London");
        for (tz, expected) in [
            ("Asia/Tokyo", "Asia/Tokyo by `TZ`"),
            (":Asia/Tokyo", "Asia/Tokyo by `TZ`"),
            ("/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo by `TZ`"),
            ("", "UTC by `TZ`"),
            ("CET-1CEST", "error: `TZ` is `CET-1CEST`, which is not the name of a time zone"),
        ] {
            assert_eq!(machine.zone(Some(tz)), expected, "{tz}");
        }
    }

    #[test]
    fn a_link_names_the_zone() {
        let machine = Machine::new();
        assert_eq!(machine.zone(None), "UTC by the absence of `/localtime`");
        let dir = machine.dir.display().to_string();
        for (target, expected) in [
            ("/usr/share/zoneinfo/Europe/Paris", "Europe/Paris by `/localtime`"),
            ("../usr/share/zoneinfo/Europe/Paris", "Europe/Paris by `/localtime`"),
            ("/usr/share/zoneinfo/posix/Europe/Paris", "Europe/Paris by `/localtime`"),
            (&format!("{dir}/zoneinfo/Europe/London"), "Europe/London by `/localtime`"),
            (
                "/usr/share/zoneinfo/Europe/Atlantis",
                "error: `/localtime` is `Europe/Atlantis`, which is not the name of a time zone",
            ),
        ] {
            assert_eq!(machine.link(target), expected, "{target}");
        }
        // A link to a link is followed.
        let second = machine.dir.join("second");
        symlink(machine.dir.join("zoneinfo/Europe/Berlin"), &second).expect("a link");
        let linked = machine.link(second.to_str().expect("UTF-8"));
        assert_eq!(linked, "Europe/Berlin by `/localtime`");
    }

    #[test]
    fn a_copy_is_known_by_its_content_and_not_by_what_another_file_says() {
        let machine = Machine::new();
        for (copy, timezone, expected) in [
            ("CET", "Europe/Paris\n", "Europe/Paris by `/localtime`, a copy of it"),
            ("CET", "Europe/Berlin\n", "Europe/Berlin by `/localtime`, a copy of it"),
            ("CET", "Etc/UTC\n", "Europe/Berlin by `/localtime`, a copy of it"),
            ("GMT", "Europe/Paris\n", "Europe/London by `/localtime`, a copy of it"),
            ("GMT", "../../etc/passwd\n", "Europe/London by `/localtime`, a copy of it"),
            (
                "XYZ",
                "Europe/Paris\n",
                "error: `/localtime` is like none of the zones in `/zoneinfo`",
            ),
        ] {
            assert_eq!(machine.copy(copy, timezone), expected, "{copy} {timezone}");
        }
    }
}
