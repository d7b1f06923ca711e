//! Hostile images and registries: bounded memory, no crash, and no damage to what other pulls brought.
