//! What was found for the same images before.
//!
//! Pods come in crowds that have the same images, and thousands of images are for the same few platforms:
//! where they run is found once for all of them, and anew when nodes change.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::fit::Fit;
use crate::images::Platforms;

/// How many answers are kept. Users choose what their images are for, so that there may be any number.
const MOST: usize = 1_000;

/// What is asked: what each image is for, and on which operating system.
pub(crate) type Asked = (Vec<Platforms>, String);

/// Answers for the nodes as they are. It says nothing about the nodes that they do not say themselves: all
/// memories are alike, and a copy starts empty.
#[derive(Default)]
pub(crate) struct Memory(Mutex<HashMap<Asked, Arc<Fit>>>);

impl Memory {
    /// The answer to a question, found unless it is known.
    pub(crate) fn recall(&self, asked: Asked, find: impl FnOnce() -> Fit) -> Arc<Fit> {
        if let Some(known) = self.0.lock().get(&asked) {
            return Arc::clone(known);
        }
        // Others go on meanwhile; at worst two find the same.
        let found = Arc::new(find());
        let mut known = self.0.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(asked, Arc::clone(&found));
        found
    }

    /// Forgets everything, as nodes have changed.
    pub(crate) fn forget(&mut self) {
        self.0.get_mut().clear();
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Memory {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use platform::Platform;

    use super::*;

    fn asked(architecture: &str) -> Asked {
        let platforms = Platforms::from_iter([Platform::new("linux", architecture)]);
        (vec![platforms], "linux".to_owned())
    }

    #[test]
    fn what_is_asked_again_is_not_found_again() {
        let mut memory = Memory::default();
        memory.recall(asked("arm64"), Fit::default);
        memory.recall(asked("arm64"), || panic!("it is known"));
        memory.forget();
        let mut found = false;
        memory.recall(asked("arm64"), || {
            found = true;
            Fit::default()
        });
        assert!(found, "nodes have changed");
    }

    #[test]
    fn it_stays_small_whatever_images_say() {
        let memory = Memory::default();
        for n in 0..3 * MOST {
            memory.recall(asked(&n.to_string()), Fit::default);
        }
        assert!(memory.len() <= MOST);
    }
}
