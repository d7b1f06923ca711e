//! Sets of nodes: a sorted list while they are small, a bit set when they are large.
//!
//! Most labels of a large cluster are on one node (its name) or on thousands (its architecture).
//! Bit sets for all of them would cost a kilobyte per label, for ten thousand labels.

use fixedbitset::FixedBitSet;

/// Largest size of a list.
///
/// A list of 32 is 128 bytes: as much as the bit set of a thousand nodes.
const FEW: usize = 32;

/// A set of nodes by their index.
#[derive(Debug, Clone)]
pub(crate) enum NodeSet {
    /// Sorted.
    Few(Vec<u32>),
    Many {
        bits: FixedBitSet,
        len: usize,
    },
}

impl Default for NodeSet {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl NodeSet {
    pub(crate) fn insert(&mut self, node: u32) {
        match self {
            Self::Few(list) => {
                if let Err(place) = list.binary_search(&node) {
                    list.insert(place, node);
                    if list.len() > FEW {
                        let len = list.len();
                        let bits = list.iter().map(|node| *node as usize).collect();
                        *self = Self::Many { bits, len };
                    }
                }
            }
            Self::Many { bits, len } => {
                bits.grow(node as usize + 1);
                if !bits.put(node as usize) {
                    *len += 1;
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, node: u32) {
        match self {
            Self::Few(list) => {
                if let Ok(place) = list.binary_search(&node) {
                    list.remove(place);
                }
            }
            Self::Many { bits, len } => {
                if bits.contains(node as usize) {
                    bits.remove(node as usize);
                    *len -= 1;
                }
                // Half of the limit, so that a node that is added and removed repeatedly does not
                // convert the set each time.
                if *len <= FEW / 2 {
                    *self = Self::Few(bits.ones().filter_map(|bit| bit.try_into().ok()).collect());
                }
            }
        }
    }

    pub(crate) fn contains(&self, node: u32) -> bool {
        match self {
            Self::Few(list) => list.binary_search(&node).is_ok(),
            Self::Many { bits, .. } => bits.contains(node as usize),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(list) => list.len(),
            Self::Many { len, .. } => *len,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds all members to `nodes`, whose capacity the caller provides.
    pub(crate) fn add_to(&self, nodes: &mut FixedBitSet) {
        match self {
            Self::Few(list) => list.iter().for_each(|node| nodes.insert(*node as usize)),
            Self::Many { bits, .. } => nodes.union_with(bits),
        }
    }

    /// Removes all others from `nodes`.
    pub(crate) fn narrow(&self, nodes: &mut FixedBitSet) {
        match self {
            Self::Few(list) => {
                let stay: Vec<usize> = list
                    .iter()
                    .map(|node| *node as usize)
                    .filter(|node| nodes.contains(*node))
                    .collect();
                nodes.clear();
                nodes.extend(stay);
            }
            Self::Many { bits, .. } => nodes.intersect_with(bits),
        }
    }

    /// Removes all members from `nodes`.
    pub(crate) fn take_from(&self, nodes: &mut FixedBitSet) {
        match self {
            Self::Few(list) => {
                let limit = nodes.len();
                let inside = list.iter().map(|node| *node as usize);
                inside
                    .filter(|node| *node < limit)
                    .for_each(|node| nodes.remove(node));
            }
            Self::Many { bits, .. } => nodes.difference_with(bits),
        }
    }

    /// How many members are in `nodes`.
    pub(crate) fn count_in(&self, nodes: &FixedBitSet) -> usize {
        match self {
            Self::Few(list) => {
                let inside = list.iter().filter(|node| nodes.contains(**node as usize));
                inside.count()
            }
            Self::Many { bits, .. } => bits.intersection_count(nodes),
        }
    }
}
