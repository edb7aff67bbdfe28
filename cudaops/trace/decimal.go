package trace

import (
	"bytes"
	"errors"
	"math"
	"strconv"
)

var errNumber = errors.New("not a time")

// nanoseconds converts decimal microseconds to nanoseconds, rounded half up. It uses floats only for numbers with an
// exponent, because they cannot represent times since the epoch in nanoseconds.
func nanoseconds(b []byte) (int64, error) {
	if bytes.ContainsAny(b, "eE") {
		f, err := strconv.ParseFloat(string(b), 64)
		if err != nil || math.Abs(f*1e3) >= farthest {
			return 0, errNumber
		}
		return int64(math.Round(f * 1e3)), nil
	}

	whole, fraction, point := bytes.Cut(b, []byte("."))
	n, err := strconv.ParseInt(string(whole), 10, 64)
	if err != nil || point && len(fraction) == 0 || n < -farthest/1000 || n > farthest/1000 {
		return 0, errNumber
	}

	tenths := int64(0)
	for i := range 4 {
		tenths *= 10
		if i >= len(fraction) {
			continue
		}
		if fraction[i] < '0' || fraction[i] > '9' {
			return 0, errNumber
		}
		tenths += int64(fraction[i] - '0')
	}

	if whole[0] == '-' {
		return n*1000 - (tenths+5)/10, nil
	}
	return n*1000 + (tenths+5)/10, nil
}
