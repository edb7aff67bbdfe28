package trace

import (
	"errors"
	"math"
	"math/big"
)

var errNumber = errors.New("not a number of microseconds")

// nanoseconds converts decimal microseconds to nanoseconds without using floats. It rounds half up after
// the third decimal.
func nanoseconds(b []byte) (int64, error) {
	s, neg := b, false
	if len(s) > 0 && s[0] == '-' {
		neg, s = true, s[1:]
	}

	if len(s) == 0 {
		return 0, errNumber
	}

	var n int64
	i := 0
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		if n > (math.MaxInt64/1000-9)/10 {
			return rationalNanoseconds(b) // a negative exponent may make it fit
		}
		n = n*10 + int64(s[i]-'0')
	}

	if i == 0 {
		return 0, errNumber
	}

	n *= 1000
	if i < len(s) && s[i] == '.' {
		scale := int64(100)
		first := i + 1

		for i++; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
			switch {
			case scale > 0:
				n += int64(s[i]-'0') * scale
				scale /= 10
			case i == first+3 && s[i] >= '5':
				n++
			}
		}

		if i == first {
			return 0, errNumber
		}
	}

	if i < len(s) {
		return rationalNanoseconds(b)
	}

	if neg {
		n = -n
	}

	return n, nil
}

// rationalNanoseconds converts numbers with an exponent, which are rare.
func rationalNanoseconds(b []byte) (int64, error) {
	if len(b) > 40 {
		return 0, errNumber // avoid huge exponents, which are not valid times
	}

	for _, c := range b {
		if (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return 0, errNumber
		}
	}

	if e := exponent(b); e > 18 || e < -40 {
		return 0, errNumber
	}

	r, ok := new(big.Rat).SetString(string(b))
	if !ok {
		return 0, errNumber
	}

	r.Mul(r, big.NewRat(1000, 1))

	// Half up: floor(r + 1/2).
	r.Add(r, big.NewRat(1, 2))
	q := new(big.Int).Div(r.Num(), r.Denom())
	if !q.IsInt64() {
		return 0, errNumber
	}

	return q.Int64(), nil
}

// exponent returns the exponent in b, or 0 if there is none.
func exponent(b []byte) int {
	for i, c := range b {
		if c != 'e' && c != 'E' {
			continue
		}
		e, sign := 0, 1
		for _, d := range b[i+1:] {
			switch {
			case d == '-':
				sign = -1
			case d >= '0' && d <= '9' && e < 1000:
				e = e*10 + int(d-'0')
			}
		}
		return sign * e
	}

	return 0
}
