// Package grid expands the axes of a grid block to the cases of one op.
package grid
