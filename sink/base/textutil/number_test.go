package textutil

import (
	"math"
	"testing"
)

func TestNumbersInWords(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %s", n, got)
		}
	}
	for s, want := range map[float64]string{0.2: "1s", 59: "59s", 59.6: "1m00s", 61: "1m01s", 3700: "1h01m"} {
		if got := Duration(s); got != want {
			t.Errorf("Duration(%g) = %s", s, got)
		}
	}
	for _, c := range [][2]string{
		{Some(1, "row"), "1 row"}, {Some(0, "row"), "0 rows"}, {Some(int64(2000), "row"), "2000 rows"},
		{Counted(1, "row"), "1 row"}, {Counted(int64(2000), "row"), "2,000 rows"},
	} {
		if c[0] != c[1] {
			t.Errorf("%q, not %q", c[0], c[1])
		}
	}
}
