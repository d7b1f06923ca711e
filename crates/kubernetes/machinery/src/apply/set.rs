//! A set of field paths, kept as a trie.

use super::path::PathElement;

/// A set of paths into an object: the fields a manager owns, or the fields a change touched.
///
/// A node may be in the set itself, have paths below it in the set, or both. The empty path is never in
/// a set: the object as a whole has no owner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Sorted by element; every node is a member or has children.
    // A sorted vector rather than a tree: sets are built in order, merged by walking both,
    // and most levels have a handful of elements.
    nodes: Vec<Node>,
}

/// One step of the trie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) element: PathElement,
    pub(super) member: bool,
    pub(super) children: FieldSet,
}

impl Node {
    fn is_void(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl FieldSet {
    /// The set of these top-level fields; what reset fields usually are.
    pub fn of_fields(names: &[&str]) -> Self {
        let mut set = Self::default();
        for name in names {
            set.insert(&[PathElement::field(name)]);
        }
        set
    }

    /// The set of these paths of field names.
    pub fn of_paths(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<PathElement> = path.iter().map(|name| PathElement::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Adds one path. The parents of the path are not added; the empty path is ignored.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let place = match self.find(first) {
            Ok(place) => place,
            Err(place) => {
                let children = Self::default();
                self.nodes.insert(
                    place,
                    Node {
                        element: first.clone(),
                        member: false,
                        children,
                    },
                );
                place
            }
        };
        let Some(node) = self.nodes.get_mut(place) else {
            return;
        };
        if rest.is_empty() {
            node.member = true;
        } else {
            node.children.insert(rest);
        }
    }

    /// Adds a subtree. Appending in order is the fast case; an element that is there is merged.
    pub(super) fn push(&mut self, element: PathElement, member: bool, children: Self) {
        if !member && children.is_empty() {
            return;
        }
        let node = Node {
            element,
            member,
            children,
        };
        if self
            .nodes
            .last()
            .is_none_or(|last| last.element < node.element)
        {
            self.nodes.push(node);
            return;
        }
        match self.find(&node.element) {
            Err(place) => self.nodes.insert(place, node),
            Ok(place) => {
                if let Some(there) = self.nodes.get_mut(place) {
                    there.member |= node.member;
                    there.children.union_with(node.children);
                }
            }
        }
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Gives every node to `change` and drops those that are left void.
    pub(super) fn change_nodes(&mut self, mut change: impl FnMut(&mut Node)) {
        self.nodes.retain_mut(|node| {
            change(node);
            !node.is_void()
        });
    }

    fn find(&self, element: &PathElement) -> Result<usize, usize> {
        self.nodes
            .binary_search_by(|node| node.element.cmp(element))
    }

    pub(super) fn node(&self, element: &PathElement) -> Option<&Node> {
        self.find(element)
            .ok()
            .and_then(|place| self.nodes.get(place))
    }

    /// The node of a field, found without making an element for it.
    pub(super) fn field_node(&self, name: &str) -> Option<&Node> {
        let place = self.nodes.binary_search_by(|node| match &node.element {
            PathElement::Field(field) => (**field).cmp(name),
            _ => std::cmp::Ordering::Greater,
        });
        place.ok().and_then(|place| self.nodes.get(place))
    }

    /// Whether the path is in the set.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        let Some((first, rest)) = path.split_first() else {
            return false;
        };
        self.node(first).is_some_and(|node| {
            if rest.is_empty() {
                node.member
            } else {
                node.children.contains(rest)
            }
        })
    }

    /// Whether no path is in the set.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many paths are in the set.
    pub fn len(&self) -> usize {
        self.nodes
            .iter()
            .map(|node| usize::from(node.member) + node.children.len())
            .sum()
    }

    /// The paths in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.union_with(other.clone());
        out
    }

    /// Adds everything in `other`.
    pub fn union_with(&mut self, other: Self) {
        if self.nodes.is_empty() {
            *self = other;
            return;
        }
        if other.nodes.is_empty() {
            return;
        }
        let mut merged = Self {
            nodes: Vec::with_capacity(self.nodes.len() + other.nodes.len()),
        };
        let mut theirs = other.nodes.into_iter().peekable();
        for mut node in std::mem::take(&mut self.nodes) {
            while let Some(their) = theirs.next_if(|their| their.element < node.element) {
                merged.nodes.push(their);
            }
            if let Some(their) = theirs.next_if(|their| their.element == node.element) {
                node.member |= their.member;
                node.children.union_with(their.children);
            }
            merged.nodes.push(node);
        }
        merged.nodes.extend(theirs);
        *self = merged;
    }

    /// The paths in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut out = Self::default();
        self.pair(other, |mine, their| {
            if let Some(their) = their {
                let children = mine.children.intersection(&their.children);
                out.push(mine.element.clone(), mine.member && their.member, children);
            }
        });
        out
    }

    /// The paths in this set and not in `other`, path by path: a parent in `other` does not remove its
    /// children.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.subtract(other);
        out
    }

    /// Takes out every path that is in `other`.
    pub fn subtract(&mut self, other: &Self) {
        self.retain_against(other, |mine, their| {
            mine.member &= !their.member;
            mine.children.subtract(&their.children);
        });
    }

    /// Takes out every path of `other` together with all that is below it.
    pub fn subtract_recursive(&mut self, other: &Self) {
        self.retain_against(other, |mine, their| {
            if their.member {
                mine.member = false;
                mine.children = Self::default();
            } else {
                mine.children.subtract_recursive(&their.children);
            }
        });
    }

    /// The paths that have no path of the set below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let mut out = Self::default();
        for node in &self.nodes {
            let leaf = node.member && node.children.is_empty();
            out.push(node.element.clone(), leaf, node.children.leaves());
        }
        out
    }

    /// Every path, in the order upstream lists them: at each level first the members, then what
    /// is below. The order of conflicts follows from it.
    pub fn iter(&self) -> impl Iterator<Item = Vec<PathElement>> + use<> {
        let mut out = Vec::with_capacity(self.len());
        self.collect(&mut Vec::new(), &mut out);
        out.into_iter()
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, out: &mut Vec<Vec<PathElement>>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            let mut path = prefix.clone();
            path.push(node.element.clone());
            out.push(path);
        }
        for node in &self.nodes {
            prefix.push(node.element.clone());
            node.children.collect(prefix, out);
            prefix.pop();
        }
    }

    /// Calls `visit` with every node and the node of `other` at the same place.
    fn pair<'a>(&'a self, other: &'a Self, mut visit: impl FnMut(&'a Node, Option<&'a Node>)) {
        let mut theirs = other.nodes.iter().peekable();
        for mine in &self.nodes {
            while theirs
                .next_if(|their| their.element < mine.element)
                .is_some()
            {}
            visit(mine, theirs.next_if(|their| their.element == mine.element));
        }
    }

    /// Calls `change` for the nodes that `other` has too, and drops those that are left void.
    fn retain_against(&mut self, other: &Self, mut change: impl FnMut(&mut Node, &Node)) {
        if other.nodes.is_empty() {
            return;
        }
        let mut theirs = other.nodes.iter().peekable();
        self.nodes.retain_mut(|mine| {
            while theirs
                .next_if(|their| their.element < mine.element)
                .is_some()
            {}
            if let Some(their) = theirs.next_if(|their| their.element == mine.element) {
                change(mine, their);
            }
            !mine.is_void()
        });
    }
}
