// Package checkpoint keeps what was done: content-addressed objects, stage
// records, the case journal and the run lock, all under one state folder.
package checkpoint

// Store is an open state folder.
type Store struct{}
