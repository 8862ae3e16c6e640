//! The IPC port: RPC of clients, administrators and other datanodes.
//!
//! | module | what |
//! |---|---|
//! | [`server`] | connections |
//! | [`methods`] | what is answered |

pub(crate) mod methods;
pub(crate) mod server;
