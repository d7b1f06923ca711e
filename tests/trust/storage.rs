//! Storage and the wire of the embedded server: file modes, temporary files, damaged records, absurd parameters.
