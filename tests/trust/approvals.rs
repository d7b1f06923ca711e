//! Approvals: an item is applied only if its exact content was approved as the strictest policy in force demands.
