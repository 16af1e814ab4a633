//! How users share what gpumap bounds: memory, time, files, output, turns.
//!
//! Users decide how many processes, files and events there are. Each account has a share of
//! its own, so that one that uses it up leaves those of others alone. An account is who
//! answers for a process or a file: a user, or all of whom that is not known together.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Something for each account, and whose turn it is.
#[derive(Debug)]
pub struct PerAccount<A, T> {
    accounts: BTreeMap<A, T>,
    /// The account that had the last turn.
    last: Option<A>,
}

impl<A, T> Default for PerAccount<A, T> {
    fn default() -> Self {
        Self { accounts: BTreeMap::new(), last: None }
    }
}

impl<A: Copy + Ord, T> PerAccount<A, T> {
    /// That of an account, if there is any.
    pub fn get(&self, account: A) -> Option<&T> {
        self.accounts.get(&account)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, account: A) -> Option<&mut T> {
        self.accounts.get_mut(&account)
    }

    /// That of an account; a new one if there is none.
    pub fn of(&mut self, account: A) -> &mut T
    where
        T: Default,
    {
        self.accounts.entry(account).or_default()
    }

    /// Those of all accounts.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.accounts.values()
    }

    /// Forgets an account.
    pub fn remove(&mut self, account: A) {
        self.accounts.remove(&account);
    }

    /// Forgets accounts of which nothing needs to be known.
    pub fn retain(&mut self, mut is_needed: impl FnMut(A, &mut T) -> bool) {
        self.accounts.retain(|account, one| is_needed(*account, one));
    }

    /// How many accounts have something.
    pub fn len(&self) -> usize {
        self.accounts.len()
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// All accounts, from the one behind that which had the last turn.
    pub fn in_turn(&self) -> impl Iterator<Item = A> {
        let is_later = |account: &A| Some(*account) > self.last;
        let later = self.accounts.keys().filter(move |account| is_later(account));
        later.chain(self.accounts.keys().filter(move |account| !is_later(account))).copied()
    }

    /// An account has its turn.
    pub fn had_turn(&mut self, account: A) {
        self.last = Some(account);
    }
}

/// Which share is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// That of one account.
    Own,
    /// That of all together.
    All,
}

/// How much each account and all together use, and may.
#[derive(Debug)]
pub struct Quota<A> {
    accounts: HashMap<A, usize>,
    all: usize,
    own_most: usize,
    all_most: usize,
}

impl<A: Eq + Hash> Quota<A> {
    /// Nothing is used yet, of so much for one account and for all.
    pub fn new(own_most: usize, all_most: usize) -> Self {
        Self { accounts: HashMap::new(), all: 0, own_most, all_most }
    }

    /// Uses an amount for an account; nothing, where that is too much.
    ///
    /// # Errors
    ///
    /// Which share has no room for it.
    pub fn take(&mut self, account: A, amount: usize) -> Result<(), Full> {
        self.room(&account, amount)?;
        self.add(account, amount);
        Ok(())
    }

    /// Counts what an account uses already, whether there is room for it or not.
    pub fn add(&mut self, account: A, amount: usize) {
        if amount > 0 {
            *self.accounts.entry(account).or_default() += amount;
            self.all += amount;
        }
    }

    /// Uses an amount that is too small to ask whose it is.
    ///
    /// # Errors
    ///
    /// [`Full::All`].
    pub fn take_shared(&mut self, amount: usize) -> Result<(), Full> {
        if self.all.saturating_add(amount) > self.all_most {
            return Err(Full::All);
        }
        self.all += amount;
        Ok(())
    }

    /// Whether there is room for an amount.
    ///
    /// # Errors
    ///
    /// Which share has none.
    pub fn room(&self, account: &A, amount: usize) -> Result<(), Full> {
        let own = self.accounts.get(account).copied().unwrap_or(0);
        if own.saturating_add(amount) > self.own_most {
            return Err(Full::Own);
        }
        if self.all.saturating_add(amount) > self.all_most { Err(Full::All) } else { Ok(()) }
    }

    /// An account uses an amount no longer.
    pub fn give_back(&mut self, account: A, amount: usize) {
        let Some(own) = self.accounts.get_mut(&account) else { return };
        let amount = amount.min(*own);
        *own -= amount;
        self.all = self.all.saturating_sub(amount);
        if *own == 0 {
            self.accounts.remove(&account);
        }
    }

    /// How many accounts use something, and how much is used.
    pub fn used(&self) -> (usize, usize) {
        (self.accounts.len(), self.all)
    }
}

/// What is used of an amount that comes back with time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovering {
    used: u64,
    /// The moment of which that is true.
    at: Option<Instant>,
}

impl Recovering {
    /// What is used at a moment, if so much comes back in a second.
    pub fn used(&mut self, now: Instant, a_second: u64) -> u64 {
        let at = *self.at.get_or_insert(now);
        let passed = now.saturating_duration_since(at).as_nanos();
        let back = u64::try_from(passed.saturating_mul(u128::from(a_second)) / SECOND).unwrap_or(u64::MAX);
        self.used = self.used.saturating_sub(back);
        // The time of what came back: the rest of it is not lost by rounding.
        let time = u128::from(back) * SECOND / u128::from(a_second.max(1));
        self.at = Some(at + Duration::from_nanos(u64::try_from(time).unwrap_or(u64::MAX).min(FAR)));
        self.used
    }

    /// Uses more.
    pub fn spend(&mut self, amount: u64) {
        self.used = self.used.saturating_add(amount);
    }
}

/// Nanoseconds of a second, and of a century.
const SECOND: u128 = 1_000_000_000;
const FAR: u64 = 100 * 366 * 86_400 * 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that every account has its turn before one has a second one, those that
    /// come later included.
    #[test]
    fn turns() {
        let mut all: PerAccount<u32, u8> = PerAccount::default();
        assert_eq!(all.in_turn().next(), None);
        [5, 1, 3].into_iter().for_each(|account| *all.of(account) += 1);
        let mut order = Vec::new();
        for _ in 0..4 {
            let next = all.in_turn().next().unwrap();
            all.had_turn(next);
            order.push(next);
        }
        assert_eq!(order, [1, 3, 5, 1]);
        all.remove(3);
        all.of(2);
        assert_eq!(all.in_turn().collect::<Vec<_>>(), [2, 5, 1]);
    }

    /// Make sure that a share that is used up leaves the others alone, that all together
    /// have one, and that what is given back can be used again.
    #[test]
    fn quota() {
        let mut quota = Quota::new(10, 25);
        assert_eq!((quota.take(1, 10), quota.take(1, 1)), (Ok(()), Err(Full::Own)));
        assert_eq!((quota.take(2, 10), quota.take(3, 6)), (Ok(()), Err(Full::All)));
        assert_eq!((quota.take_shared(5), quota.take_shared(1)), (Ok(()), Err(Full::All)));
        assert_eq!((quota.take(3, 0), quota.take(1, 0)), (Ok(()), Ok(())));
        quota.give_back(1, 10);
        quota.give_back(9, 10);
        assert_eq!((quota.used(), quota.take(3, 10)), ((1, 15), Ok(())));
    }

    /// Make sure that all of it comes back, however often somebody looks.
    #[test]
    fn recovering() {
        let (mut often, mut seldom, now) = (Recovering::default(), Recovering::default(), Instant::now());
        for one in [&mut often, &mut seldom] {
            one.used(now, 7);
            one.spend(100);
        }
        for tenths in 1..=100 {
            often.used(now + Duration::from_millis(100) * tenths, 7);
        }
        let later = now + Duration::from_secs(10);
        assert_eq!((often.used(later, 7), seldom.used(later, 7)), (30, 30));
        assert_eq!(seldom.used(later + Duration::from_secs(1 << 40), u64::MAX), 0);
    }
}
