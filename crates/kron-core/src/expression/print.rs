//! Timings as expressions: the one canonical text of each.

use std::fmt;

use super::Modifier;
use crate::constraint::Side;
use crate::distribution::Distribution;
use crate::duration::Seconds;
use crate::policy::{Concurrency, Policy};
use crate::schedule::{Dst, Gap, Overlap};
use crate::seed::SeedStrategy;
use crate::timing::Timing;
use crate::window::Window;

impl Timing {
    /// The canonical expression of everything that decides.
    #[must_use]
    pub fn deciding_expression(&self) -> String {
        use fmt::Write as _;
        let placement = self.placement();
        let mut text = self.schedule().pattern().to_string();
        let mut add = |modifier: Modifier, arguments: &str| {
            // Writing to a `String` cannot fail.
            let _ = write!(text, " {}({arguments})", modifier.name());
        };
        if placement.zone().name() != "UTC" {
            add(Modifier::Tz, placement.zone().name());
        }
        let window = placement.window();
        if window != Window::default() {
            add(Modifier::Win, &format!("{},{}", window.mode(), window.length()));
        }
        if placement.distribution() != Distribution::default() {
            add(Modifier::Dist, &placement.distribution().to_string());
        }
        match (placement.seed_strategy(), placement.salt()) {
            (SeedStrategy::Stable, "") => {}
            (strategy, "") => add(Modifier::Seed, strategy.as_str()),
            (strategy, salt) => {
                let salt = salt.replace('%', "%%");
                let quoted = salt.replace('\\', "\\\\").replace('"', "\\\"");
                add(Modifier::Seed, &format!("{strategy},salt=\"{quoted}\""));
            }
        }
        for side in [Side::Only, Side::Avoid] {
            let clauses = placement.constraints().clauses(side);
            if !clauses.is_empty() {
                let modifier = if side == Side::Only { Modifier::Only } else { Modifier::Avoid };
                add(modifier, &clauses.join(";"));
            }
        }
        let Dst { gap, overlap } = self.schedule().dst();
        if (gap, overlap) != (Gap::Shift, Overlap::Auto) {
            add(Modifier::Dst, &format!("gap={},overlap={}", gap.as_str(), overlap.as_str()));
        }
        text
    }
}

/// The canonical expression: what [`crate::TimingParser::parse`] reads back as the same timing.
impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.deciding_expression())?;
        let Policy { concurrency, deadline, suspend } = self.policy;
        let mut settings = Vec::new();
        if concurrency != Concurrency::default() {
            settings.push(format!("concurrency={concurrency}"));
        }
        if deadline != Seconds::ZERO {
            settings.push(format!("deadline={deadline}"));
        }
        if suspend {
            settings.push("suspend=true".to_owned());
        }
        if !settings.is_empty() {
            write!(f, " {}({})", Modifier::Policy.name(), settings.join(","))?;
        }
        Ok(())
    }
}
