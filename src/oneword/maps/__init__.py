"""Feature maps φ and their Probes: φ prepared at one text, so that changing one word costs little."""
