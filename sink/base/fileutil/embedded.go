package fileutil

import (
	"encoding/json"
	"sync"
)

// Embedded returns a function that decodes the JSON of an embedded file, once, when it is first called. Callers must
// not change the value.
func Embedded[T any](name string, data []byte) func() T {
	return sync.OnceValue(func() (value T) {
		if err := json.Unmarshal(data, &value); err != nil {
			panic(name + ": " + err.Error())
		}
		return value
	})
}
