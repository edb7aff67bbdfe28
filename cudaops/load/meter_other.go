//go:build !linux

package load

import "time"

func usage() (cpu time.Duration, rss float64) { return 0, 0 }
