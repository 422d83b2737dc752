"""Tests of translations between objects and engine values."""
