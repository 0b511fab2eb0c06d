"""Tests and measurements on a graphics card, in one call: `make gpu`."""
