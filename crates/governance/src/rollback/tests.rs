//! Undoing, as plans: what was there before, whoever touched it first.
