//! How the columns of a table share the room there is.
//!
//! Long cells are cut first, the widest most; then whole columns are left out in a fixed order. The
//! first column and those that are never left out stay; when even they are too wide, the first gets
//! what the others leave.

use super::cell::{Cell, Style};

/// Blanks between columns.
const GAP: usize = 2;

/// What may become of each column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout<const COLUMNS: usize> {
    /// How narrow a column may become before it is left out.
    pub(crate) widths_min: [usize; COLUMNS],
    /// How wide a column is at least, so that it does not jump about while it is looked at.
    pub(crate) widths_usual: [usize; COLUMNS],
    /// Which columns may be cut.
    pub(crate) cuts: [bool; COLUMNS],
    /// The order in which columns are left out.
    pub(crate) left_out: &'static [usize],
}

impl<const COLUMNS: usize> Layout<COLUMNS> {
    /// The rows, the first of which are the headers, each as a line.
    pub(crate) fn lines(&self, rows: &[[Cell; COLUMNS]], style: &Style) -> Vec<String> {
        let widths = self.fit(rows, style.width);
        let line = |row: &[Cell; COLUMNS]| {
            let mut line = String::new();
            let mut owed = 0;
            for (cell, width) in row.iter().zip(&widths) {
                let Some(width) = *width else { continue };
                let cell = cell.cut(width, style);
                // Blanks come before what follows them, so that no line ends in any.
                if cell.width() > 0 {
                    line.extend(std::iter::repeat_n(' ', owed));
                    owed = 0;
                    cell.write(&mut line, style);
                }
                owed += width - cell.width() + GAP;
            }
            line
        };
        rows.iter().map(line).collect()
    }

    /// The width of each column, or nothing for one that is left out.
    fn fit(&self, rows: &[[Cell; COLUMNS]], room: Option<usize>) -> [Option<usize>; COLUMNS] {
        let natural = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
        let mut widths: [Option<usize>; COLUMNS] =
            std::array::from_fn(|column| Some(natural(column).max(self.widths_usual[column])));
        let Some(room) = room else { return widths };
        let total = |widths: &[Option<usize>; COLUMNS]| {
            let shown = widths.iter().flatten();
            shown.clone().sum::<usize>() + shown.count().saturating_sub(1) * GAP
        };
        let spare = |widths: &[Option<usize>; COLUMNS], column: usize| match widths[column] {
            Some(width) if self.cuts[column] => width.saturating_sub(self.widths_min[column]),
            _ => 0,
        };
        let mut left_out = self.left_out.iter();
        loop {
            let excess = total(&widths).saturating_sub(room);
            if excess == 0 {
                return widths;
            }
            if (0..COLUMNS).map(|column| spare(&widths, column)).sum::<usize>() >= excess {
                // The widest gives first.
                for _ in 0..excess {
                    let widest = (0..COLUMNS).max_by_key(|&column| spare(&widths, column));
                    let Some(widest) = widest else { return widths };
                    widths[widest] = widths[widest].map(|width| width - 1);
                }
                return widths;
            }
            match left_out.next() {
                Some(&column) => widths[column] = None,
                None => {
                    let others = total(&widths) - widths[0].unwrap_or(0);
                    widths[0] = Some(room.saturating_sub(others).max(1));
                    return widths;
                }
            }
        }
    }
}
