// Package server starts a model server for the cases that need it, waits until
// it answers, keeps what it prints, and ends it with everything that it started.
package server
