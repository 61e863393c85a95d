//! What was set aside, as people look for it: by what it is called now, or by the id of the task that
//! it was meant to be.

use kron_spool::{Report, Spool, SpoolError};

/// The names among these that are meant: of what is called so now, or was a task of this id.
pub(crate) fn named<'n>(names: &'n [String], wanted: &str) -> Vec<&'n str> {
    let file = format!("{wanted}.json");
    let numbered = format!("{file}.");
    let is_meant = |name: &&str| {
        *name == wanted
            || *name == file
            || name.strip_prefix(&numbered).is_some_and(|number| {
                !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
            })
    };
    names.iter().map(String::as_str).filter(is_meant).collect()
}

/// The report of what is called so; what is wrong with it when there is none to be read.
pub(crate) fn report(spool: &Spool, name: &str) -> Result<Report, String> {
    match spool.report(name) {
        Ok(Some(report)) => report.map_err(|wrong| format!("its report is none: {wrong}")),
        Ok(None) => Err("it has no report".to_owned()),
        Err(SpoolError::Io { source, .. }) => Err(format!("its report cannot be read: {source}")),
        Err(SpoolError::Refused { refusal: source, .. }) => {
            Err(format!("its report cannot be read: {source}"))
        }
        Err(error) => Err(format!("its report cannot be read: {error}")),
    }
}
