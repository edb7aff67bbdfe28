package grid

import (
	"cmp"
	"slices"
)

// sortStable sorts s and keeps the order of equal elements.
func sortStable[T any](s []T, less func(a, b T) bool) {
	slices.SortStableFunc(s, func(a, b T) int {
		switch {
		case less(a, b):
			return -1
		case less(b, a):
			return 1
		}
		return 0
	})
}

func sortInt32(s []int32) { slices.SortFunc(s, cmp.Compare[int32]) }
