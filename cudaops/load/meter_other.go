//go:build !linux

package load

import "time"

func processTime() time.Duration { return 0 }

func peakRSS() float64 { return 0 }
