package tree

import (
	"cmp"

	version "github.com/aquasecurity/go-pep440-version"
)

// CompareVersions orders versions as Python does: 1.3.0rc2 < 1.3.0rc10 < 1.3.0.
// What Python would not take for a version is ordered by its text.
func CompareVersions(a, b string) int {
	x, errX := version.Parse(a)
	y, errY := version.Parse(b)
	if errX != nil || errY != nil {
		return cmp.Compare(a, b)
	}

	return x.Compare(y)
}
