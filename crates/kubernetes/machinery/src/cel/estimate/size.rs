//! Sizes, and the routes by which they are resolved in a schema.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::cel::decl::{Decl, MAX_REQUEST, Shape};

/// Fewest and most elements, entries or characters of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Size {
    /// Nothing is known.
    pub(super) const UNKNOWN: Self = Self::up_to(u64::MAX);

    /// Exactly so much.
    pub(super) const fn fixed(size: u64) -> Self {
        Self {
            min: size,
            max: size,
        }
    }

    /// At most so much.
    pub(super) const fn up_to(max: u64) -> Self {
        Self { min: 0, max }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// Covers both.
    pub(super) fn union(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

/// The sizes of the elements of a list or map.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntrySize {
    /// Of a list rather than a map.
    pub(super) list: bool,
    pub(super) key: Size,
    pub(super) value: Size,
}

impl EntrySize {
    pub(super) fn union(self, other: Self) -> Self {
        Self {
            list: self.list,
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}

/// One step from a value to a part of it.
#[derive(Debug, Clone, Copy)]
pub(super) enum ValuePart<'d> {
    /// A variable, or a field.
    Name(&'d str),
    Items,
    Keys,
    Values,
    Indices,
}

/// Where routes start.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Root<'d> {
    /// At the object that a rule validates, whatever the variable is called.
    Object(&'d Decl),
    /// At one of these variables.
    Variables(&'d [(String, Arc<Decl>)]),
}

/// How an expression reaches into the object, empty if it does not.
///
/// Upstream keeps routes in Go slices and extends them with `append`, so two routes that extend
/// the same one may share memory, and the later one then changes the earlier one's last step.
/// Which rules fit the budget depends on that, hence the shared steps here.
#[derive(Debug, Clone, Default)]
pub(super) struct Route<'d> {
    steps: Rc<RefCell<Vec<ValuePart<'d>>>>,
    len: usize,
}

impl<'d> Route<'d> {
    /// The route to a variable.
    pub(super) fn variable(name: &'d str) -> Self {
        Self::default().then(ValuePart::Name(name))
    }

    /// One step further.
    pub(super) fn then(&self, step: ValuePart<'d>) -> Self {
        let len = self.len + 1;
        // The capacity of such slices doubles, so that of a power of two is used up.
        if self.len == 0 || self.len.is_power_of_two() {
            let mut steps: Vec<ValuePart<'d>> =
                self.steps.borrow().iter().take(self.len).copied().collect();
            steps.push(step);
            return Self {
                steps: Rc::new(RefCell::new(steps)),
                len,
            };
        }
        let mut steps = self.steps.borrow_mut();
        match steps.get_mut(self.len) {
            Some(taken) => *taken = step,
            None => steps.push(step),
        }
        drop(steps);
        Self {
            steps: Rc::clone(&self.steps),
            len,
        }
    }

    /// The size the schema gives for the end of the route. For an object, the rest of the route starts from it
    /// whatever the first step is: upstream takes every variable for `self`.
    pub(super) fn size(&self, root: Root<'_>) -> Option<Size> {
        if self.len == 0 {
            return None;
        }
        let steps = self.steps.borrow();
        let mut rest = steps.iter().take(self.len);
        let first = rest.next();
        let mut at = match (root, first) {
            (Root::Object(decl), _) => decl,
            (Root::Variables(all), Some(ValuePart::Name(name))) => {
                &*all.iter().find(|(known, _)| known == name)?.1
            }
            (Root::Variables(_), _) => return None,
        };
        while let Some(step) = rest.next() {
            at = match (step, &at.shape) {
                (ValuePart::Items | ValuePart::Values, Shape::List(list)) => &list.items,
                (ValuePart::Items | ValuePart::Values, Shape::Map(values)) => values,
                // Keys have no bound of their own.
                (ValuePart::Keys, Shape::Map(_)) => {
                    return rest.next().is_none().then_some(Size::up_to(0));
                }
                (ValuePart::Name(name), Shape::Object(object)) => &object.fields.get(*name)?.decl,
                // Part of something without a schema: no larger than what it is part of. Rules never see this.
                (_, Shape::Dyn) if matches!(root, Root::Variables(_)) => {
                    return Some(Size::up_to(MAX_REQUEST));
                }
                _ => return None,
            };
        }
        Some(Size::up_to(at.max_elements))
    }

    /// The same route with steps of its own.
    pub(super) fn copy(&self) -> Self {
        let steps = self.steps.borrow().iter().take(self.len).copied().collect();
        Self {
            steps: Rc::new(RefCell::new(steps)),
            len: self.len,
        }
    }

    /// An empty route stands for no route.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}
