//! Explanations name what to do next.
