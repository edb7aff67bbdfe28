// Package server starts a model server, waits until it is ready, captures its output, and stops it together
// with all processes that it started.
package server
