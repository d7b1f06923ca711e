//! Reading, running and comparing the exchanges of the differential suite.

pub(crate) mod compare;
pub(crate) mod corpus;
pub(crate) mod normalise;
pub(crate) mod pointer;
pub(crate) mod run;

#[cfg(test)]
mod tests;
