//! Which columns the matrix has room for, and how wide they are.

use super::canvas::columns as width_of;
use crate::render::matrix::labels;
use crate::report::{Matrix, MatrixRow};
use crate::top::State;

/// The least of an owner's name, on a narrow screen and on others, and the most.
const NAME: [u16; 3] = [20, 28, 44];
/// The width from which a screen is not narrow.
const WIDE: u16 = 72;
/// What stands before a name: the severity of a finding, and whether it is open.
pub(super) const MARKS: u16 = 4;

/// A column beside the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extra {
    /// Users.
    User,
    /// Launches in a second.
    Launches,
    /// Bytes copied in a second.
    Copied,
    /// Memory.
    Memory,
    /// Limits.
    Limits,
    /// Time since the last call.
    Idle,
    /// Processes.
    Processes,
}

impl Extra {
    /// Its name and width.
    pub(super) fn head(self) -> (&'static str, u16) {
        match self {
            Self::User => ("USER", 10),
            Self::Launches => ("LAUNCH/S", 9),
            Self::Copied => ("COPY/S", 9),
            Self::Memory => ("MEMORY", 9),
            Self::Limits => ("LIMITS", 15),
            Self::Idle => ("IDLE", 5),
            Self::Processes => ("PROCS", 6),
        }
    }

    /// Whether it is a number, and stands at the right end.
    pub(super) fn is_number(self) -> bool {
        !matches!(self, Self::User | Self::Limits)
    }

    /// Those that something is known for, the most useful first.
    fn known(matrix: &Matrix) -> impl Iterator<Item = Self> {
        let any = |has: fn(&MatrixRow) -> bool| matrix.rows.iter().any(has);
        let counts = any(|row| row.activity.is_some());
        let all = [
            (Self::Processes, true),
            (Self::User, true),
            (Self::Launches, counts),
            (Self::Memory, counts),
            (Self::Limits, any(|row| !row.limits.is_empty())),
            (Self::Idle, counts),
            (Self::Copied, counts),
        ];
        all.into_iter().filter(|(_, is_known)| *is_known).map(|(extra, _)| extra)
    }

    /// Its place from left to right; the user stands before the GPUs.
    fn place(self) -> usize {
        [Self::User, Self::Launches, Self::Copied, Self::Memory, Self::Limits, Self::Idle, Self::Processes]
            .iter()
            .position(|one| *one == self)
            .unwrap_or_default()
    }
}

/// The columns of a screen.
#[derive(Debug)]
pub(super) struct Columns {
    /// The width of the owner's column, with its marks.
    pub(super) name: u16,
    /// Names of the GPUs that are shown.
    pub(super) labels: Vec<String>,
    /// The first of them.
    pub(super) first: usize,
    /// The width of each, with the space before it.
    pub(super) width: u16,
    /// What else is shown, from left to right.
    pub(super) extras: Vec<Extra>,
    /// Whether GPUs are left out before or behind.
    pub(super) is_cut: (bool, bool),
}

impl Columns {
    /// Lays them out. The names of GPUs give way first, then what is beside the matrix,
    /// then GPUs far from the cursor.
    pub(super) fn of(state: &State, width: u16) -> Self {
        let matrix = &state.moment().matrix;
        let all = |is_short| labels(&matrix.columns, &state.moment().gpus, is_short);
        let wide = |labels: &[String]| labels.iter().map(|label| width_of(label)).max().unwrap_or(0).max(2);
        let count = matrix.columns.len();
        let [narrow, least, most] = NAME;
        let least = if width < WIDE { narrow } else { least };
        let room = usize::from(width.saturating_sub(least));
        let spare = |column: usize| room.checked_sub((column + 1) * count);
        let (long, short) = (all(false), all(true));
        let beside = Extra::known(matrix).take(4).map(|extra| usize::from(extra.head().1)).sum::<usize>();
        let is_roomy = spare(wide(&long)).is_some_and(|left| left >= beside);
        let labels = if is_roomy { long } else { short };
        let column = wide(&labels) + 1;
        let mut extras = Vec::new();
        let mut left = room.saturating_sub(column * count);
        for extra in Extra::known(matrix) {
            let needs = usize::from(extra.head().1);
            if left >= needs {
                left -= needs;
                extras.push(extra);
            }
        }
        extras.sort_by_key(|extra| extra.place());
        let fit = (room / column).clamp(1, count.max(1));
        let at = state.cursor().1.saturating_sub(1);
        let first = if fit >= count { 0 } else { at / fit * fit };
        let shown: Vec<String> = labels.into_iter().skip(first).take(fit).collect();
        let name = least.saturating_add(u16::try_from(left).unwrap_or(0)).min(most).min(width);
        let is_cut = (first > 0, first + shown.len() < count);
        Self { name, labels: shown, first, width: u16::try_from(column).unwrap_or(u16::MAX), extras, is_cut }
    }
}
