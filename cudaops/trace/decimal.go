package trace

import (
	"bytes"
	"errors"
	"math"
	"strconv"
)

var errNumber = errors.New("not a time")

// nanoseconds converts decimal microseconds to nanoseconds, rounded half up. It uses no floats, which cannot represent
// times since the epoch in nanoseconds.
func nanoseconds(b []byte) (int64, error) {
	shift := 3
	if i := bytes.IndexAny(b, "eE"); i >= 0 {
		e, err := strconv.Atoi(string(b[i+1:]))
		if err != nil || e < -40 || e > 40 {
			return 0, errNumber
		}
		b, shift = b[:i], shift+e
	}

	digits := bytes.TrimPrefix(b, []byte("-"))
	if n := len(digits); n == 0 || digits[n-1] == '.' {
		return 0, errNumber
	}

	var n, up int64
	point, dropped := false, false

	for i, c := range digits {
		switch {
		case c == '.' && !point && i > 0:
			point = true
		case c < '0' || c > '9':
			return 0, errNumber
		case point && shift <= 0:
			if !dropped && shift == 0 && c >= '5' {
				up = 1
			}
			dropped = true
		case n > (math.MaxInt64-9)/10:
			return 0, errNumber
		default:
			n = 10*n + int64(c-'0')
			if point {
				shift--
			}
		}
	}

	for ; shift > 0; shift-- {
		if n > math.MaxInt64/10 {
			return 0, errNumber
		}
		n *= 10
	}

	for ; shift < 0; shift++ {
		n, up = n/10, n%10/5
	}

	if n += up; len(digits) < len(b) {
		n = -n
	}
	return n, nil
}
