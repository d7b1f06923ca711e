//! The state machine, step by step, on a simulated cluster.
