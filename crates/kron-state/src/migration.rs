//! From documents of other versions to the present one.
//!
//! A migration is a function from one version's fields to the next one's, and it is the only way
//! a document of another version is used: what no chain of migrations reaches is refused, newer
//! versions included. Whatever a migration does, it may not lose the mark of what was handled;
//! that is checked here and not left to each of them.

use serde_json::{Map, Value};

/// The fields of a document.
pub(crate) type Fields = Map<String, Value>;

/// How documents of one version become those of another.
pub(crate) struct Migration {
    /// The version it reads.
    pub(crate) from: &'static str,
    /// The version it gives.
    pub(crate) to: &'static str,
    /// What it does; the version itself is set for it.
    pub(crate) apply: fn(Fields) -> Result<Fields, String>,
}

/// Every migration there is. Version 1 is the first, so there is none yet.
pub(crate) const MIGRATIONS: &[Migration] = &[];

const VERSION_KEY: &str = "Version";
const MARK_KEY: &str = "LastHandledPeriodID";

/// `fields` in version `wanted`.
///
/// # Errors
/// When they cannot be brought there, or would lose their mark on the way.
pub(crate) fn migrate(
    mut fields: Fields,
    wanted: &str,
    migrations: &[Migration],
) -> Result<Fields, String> {
    // Each migration is used once at most, so that a cycle among them ends.
    for _ in 0..=migrations.len() {
        let version = match fields.get(VERSION_KEY) {
            Some(Value::String(version)) => version.clone(),
            Some(_) => return Err(format!("`{VERSION_KEY}` is not a text")),
            None => return Err(format!("`{VERSION_KEY}` is missing")),
        };
        if version == wanted {
            return Ok(fields);
        }
        let Some(migration) = migrations.iter().find(|migration| migration.from == version) else {
            return Err(format!(
                "its version is `{version}`, and this build reads `{wanted}` and knows no way \
                 there"
            ));
        };
        let Some(mark) = fields.get(MARK_KEY).cloned() else {
            return Err(format!("`{MARK_KEY}` is missing"));
        };
        let failed =
            |why: String| format!("migration from `{version}` to `{}`: {why}", migration.to);
        fields = (migration.apply)(fields).map_err(failed)?;
        if fields.get(MARK_KEY) != Some(&mark) {
            return Err(failed(format!("`{MARK_KEY}` was lost")));
        }
        fields.insert(VERSION_KEY.to_owned(), migration.to.into());
    }
    Err("its migrations lead in a circle".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MARK: &str = "2026-03-01T02:00:00Z";

    fn fields(version: &Value) -> Fields {
        let Value::Object(fields) =
            json!({"Version": version, "Identity": "a", MARK_KEY: MARK, "Runs": [1]})
        else {
            unreachable!("it is an object")
        };
        fields
    }

    /// A version that never was: what is `Runs` there is `History` in `1`.
    fn rename_runs(mut fields: Fields) -> Result<Fields, String> {
        let runs = fields.remove("Runs").ok_or("`Runs` is missing")?;
        fields.insert("History".to_owned(), runs);
        Ok(fields)
    }

    fn lose_mark(mut fields: Fields) -> Result<Fields, String> {
        fields.insert(MARK_KEY.to_owned(), "".into());
        Ok(fields)
    }

    #[test]
    fn a_document_is_led_through_every_version_between() {
        let table = [
            Migration { from: "0", to: "0.5", apply: rename_runs },
            Migration { from: "0.5", to: "1", apply: Ok },
        ];
        let migrated = migrate(fields(&json!("0")), "1", &table).unwrap();
        assert_eq!(migrated["Version"], "1");
        assert_eq!(migrated["History"], json!([1]));
        assert_eq!(migrated[MARK_KEY], MARK);
    }

    fn check_refused(version: &Value, table: &[Migration], said: &str) {
        let why = migrate(fields(version), "1", table).unwrap_err();
        assert!(why.contains(said), "{version}: {why}");
    }

    #[test]
    fn what_cannot_be_migrated_is_refused_and_explained() {
        check_refused(&json!("2"), MIGRATIONS, "its version is `2`");
        check_refused(&json!(""), MIGRATIONS, "its version is ``");
        check_refused(&json!(1), MIGRATIONS, "not a text");
        let losing = [Migration { from: "0", to: "1", apply: lose_mark }];
        check_refused(&json!("0"), &losing, "`LastHandledPeriodID` was lost");
        let circle = [
            Migration { from: "0", to: "9", apply: Ok },
            Migration { from: "9", to: "0", apply: Ok },
        ];
        check_refused(&json!("0"), &circle, "in a circle");
        let failing = [Migration { from: "0", to: "1", apply: |_| Err("no".to_owned()) }];
        check_refused(&json!("0"), &failing, "migration from `0` to `1`: no");

        let mut unmarked = fields(&json!("0"));
        unmarked.remove(MARK_KEY);
        let table = [Migration { from: "0", to: "1", apply: rename_runs }];
        let why = migrate(unmarked, "1", &table).unwrap_err();
        assert!(why.contains("`LastHandledPeriodID` is missing"), "{why}");
        let why = migrate(Fields::new(), "1", &table).unwrap_err();
        assert!(why.contains("`Version` is missing"), "{why}");
    }
}
