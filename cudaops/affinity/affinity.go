// Package affinity binds threads to CPUs.
package affinity
